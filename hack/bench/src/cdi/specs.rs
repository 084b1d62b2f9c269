//! A spec with every channel: parsing it, and injecting one of them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use imex_cdi::{
    ChannelId, Device, Kind, Major, OsHost, Plan, QualifiedName, Registry, Spec, channel_edits,
};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::disk::Scratch;
use crate::proc;
use crate::rounds::{Rounds, interleave};
use crate::table::{Aim, Fact, Row};

/// The kernel driver's maximum number of channels.
const CHANNELS: u32 = 2048;

/// A container's config that containerd wrote for a small pod: runtime-spec 1.2.
const CONFIG: &str = include_str!("config.json");

const PARSE: Aim = Aim::Within(Duration::from_millis(20));
const INJECT: Aim = Aim::Within(Duration::from_millis(1));
const PEAK: u64 = 10_000_000;

pub(super) fn rows(scratch: &Scratch, rounds: usize) -> anyhow::Result<Vec<Row>> {
    let row = |operation, file_bytes, aim, rounds| Row {
        of: format!("{CHANNELS} channels"),
        file_bytes,
        operation,
        rounds,
        aim: Some(aim),
    };
    let json = spec()?.to_json();
    let yaml = as_go_writes()?;
    let parse = |text: &[u8]| {
        let spec = Spec::parse(text)?;
        ensure!(spec.devices().len() == CHANNELS as usize);
        Ok(())
    };
    let floor = || {
        serde_json::from_slice::<IgnoredAny>(&json)?;
        Ok(())
    };
    let of_json = interleave(rounds, || parse(&json), floor)?;
    let of_yaml = interleave(rounds, || parse(yaml.as_bytes()), floor)?;
    let inject = injected(scratch, &json, rounds)?;
    Ok(vec![
        row("parse JSON / JSON syntax", json.len(), PARSE, of_json),
        row("parse block YAML / JSON syntax", yaml.len(), PARSE, of_yaml),
        row(
            "plan and apply one / parse and print the config",
            CONFIG.len(),
            INJECT,
            inject,
        ),
    ])
}

fn injected(scratch: &Scratch, spec: &[u8], rounds: usize) -> anyhow::Result<Rounds> {
    let dir = scratch.subdirectory("channels")?;
    fs::write(dir.join("channels.json"), spec)?;
    let registry = Registry::load(&[dir]);
    let name: QualifiedName = "k8s.compute-domain.nvidia.com/channel=channel-1024".parse()?;
    let names = [name];
    let config: Value = serde_json::from_str(CONFIG)?;
    let host = OsHost::new("/");
    let inject = || {
        let mut config = config.clone();
        Plan::new(&registry, &names, &config, &host)?.apply(&mut config);
        let devices = config.pointer("/linux/devices").and_then(Value::as_array);
        ensure!(devices.is_some_and(|devices| devices.len() == 1));
        Ok(())
    };
    let floor = || {
        let config: Value = serde_json::from_str(CONFIG)?;
        ensure!(!serde_json::to_vec(&config)?.is_empty());
        Ok(())
    };
    interleave(rounds, inject, floor)
}

/// The memory that parsing needs in addition to the text; each parse runs in its own process.
pub(super) fn facts(scratch: &Scratch) -> anyhow::Result<Vec<Fact>> {
    let dir = scratch.subdirectory("peaks")?;
    let measure = |what, name, text: &[u8]| -> anyhow::Result<Fact> {
        let file = dir.join(name);
        fs::write(&file, text)?;
        Ok(Fact {
            what,
            bytes: peak_in_child(&file)?,
            aim: PEAK,
        })
    };
    Ok(vec![
        measure(
            "peak memory of parsing 2048 channels in JSON, beyond the text",
            "json",
            &spec()?.to_json(),
        )?,
        measure(
            "peak memory of parsing 2048 channels in block YAML, beyond the text",
            "yaml",
            as_go_writes()?.as_bytes(),
        )?,
    ])
}

fn peak_in_child(file: &Path) -> anyhow::Result<u64> {
    let this: PathBuf = std::env::current_exe()?;
    let output = Command::new(this).arg("peak").arg(file).output()?;
    ensure!(output.status.success(), "the child failed: {output:?}");
    let text = String::from_utf8(output.stdout)?;
    text.trim()
        .parse()
        .context("the child did not print a number")
}

/// The growth of this process's peak memory, in bytes, by parsing the spec at `file`,
/// after the text has been read.
pub(crate) fn peak_of_parsing(file: &Path) -> anyhow::Result<u64> {
    let text = fs::read(file)?;
    // Resets the peak to the current resident memory (proc_pid_clear_refs(5)).
    fs::write("/proc/self/clear_refs", "5")?;
    let before = peak()?;
    let spec = Spec::parse(&text)?;
    let after = peak()?;
    ensure!(!spec.devices().is_empty());
    Ok(after - before)
}

fn peak() -> anyhow::Result<u64> {
    Ok(proc::number("/proc/self/status", "VmHWM")? * 1024)
}

/// A device for each channel.
fn spec() -> anyhow::Result<Spec> {
    let major = Major::new(235)?;
    let device = |id| {
        let id = ChannelId::new(id)?;
        Ok(Device {
            name: id.device_name(),
            annotations: std::collections::BTreeMap::new(),
            container_edits: channel_edits(id, major),
        })
    };
    let devices: anyhow::Result<Vec<Device>> = (0..CHANNELS).map(device).collect();
    let kind: Kind = "k8s.compute-domain.nvidia.com/channel".parse()?;
    Ok(Spec::new(kind, devices?)?)
}

/// The same devices in the layout of Go's library.
fn as_go_writes() -> anyhow::Result<String> {
    let mut text = String::from(
        "---\ncdiVersion: 0.5.0\nkind: k8s.compute-domain.nvidia.com/channel\ndevices:\n",
    );
    for id in 0..CHANNELS {
        let path = format!("/dev/nvidia-caps-imex-channels/channel{id}");
        write!(
            text,
            "    - name: channel-{id}\n      containerEdits:\n        deviceNodes:\n            - path: {path}\n              hostPath: {path}\n              type: c\n              major: 235\n              minor: {id}\n              fileMode: 438\n",
        )?;
    }
    Ok(text)
}
