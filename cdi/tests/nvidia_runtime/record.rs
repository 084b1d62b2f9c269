//! Runs NVIDIA's programs. A host is laid out for them in a directory: a driver root with NVML and
//! two channels, CDI specs, and stand-ins for the programs that they call.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cases::{Input, SPECS};
use crate::{DIRECTORY, Recorded, Recording};

pub(crate) struct Host {
    programs: PathBuf,
    root: TempDir,
}

/// Keeps only the program's own message, without paths of this host.
fn error_of(output: &str) -> String {
    let last = output.lines().rfind(|line| line.contains("level=error"));
    let text = last.unwrap_or(output);
    let message = text
        .split_once("msg=")
        .map_or(text, |(_, message)| message.trim_matches('"'));
    let causes: Vec<&str> = message.split(": ").collect();
    let last = causes
        .get(causes.len().saturating_sub(2)..)
        .unwrap_or_default();
    last.join(": ").replace('\\', "").replace('"', "'")
}

/// A line for each case, so that diffs are readable.
pub(crate) fn one_case_a_line(recording: &Recording) -> String {
    let line = |case: &Recorded| serde_json::to_string(case).unwrap();
    let cases: Vec<String> = recording.cases.iter().map(line).collect();
    format!(
        "{{\"toolkit\": {},\n\"specs\": {},\n\"cases\": [\n{}\n]}}\n",
        json!(recording.toolkit),
        serde_json::to_string_pretty(&recording.specs).unwrap(),
        cases.join(",\n")
    )
}

/// `IMEX_NVIDIA_VERSION`: the programs do not report their version.
pub(crate) fn toolkit() -> String {
    std::env::var("IMEX_NVIDIA_VERSION").unwrap()
}

// === impl Host ===

impl Host {
    pub(crate) fn lay_out(programs: &Path) -> Self {
        let root = tempfile::tempdir().unwrap();
        let host = Self {
            programs: programs.to_owned(),
            root,
        };
        for dir in [
            "driver/usr/lib64",
            "driver/dev/nvidia-caps-imex-channels",
            "specs",
            "csv",
        ] {
            fs::create_dir_all(host.path(dir)).unwrap();
        }
        for minor in [0, 1] {
            let node = host.path(&format!("driver{DIRECTORY}{minor}"));
            mknod(&node, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(235, minor)).unwrap();
        }
        let library = host.path("driver/usr/lib64/libnvidia-ml.so.580.82.07");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nvidia_runtime/nvml.c");
        let gcc = Command::new("gcc")
            .args(["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o"])
            .arg(&library)
            .arg(source)
            .status();
        assert!(gcc.unwrap().success());
        let link = host.path("driver/usr/lib64/libnvidia-ml.so.1");
        std::os::unix::fs::symlink(library.file_name().unwrap(), link).unwrap();
        for (at, text) in SPECS.iter().enumerate() {
            fs::write(host.path(&format!("specs/{at}.yaml")), text).unwrap();
        }
        host.program("low-level", "exit 0");
        let cli = format!("echo \"$@\" >{}", host.path("cli.txt").display());
        host.program("cli", &cli);
        host
    }

    fn program(&self, name: &str, line: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) fn run(&self, input: Input) -> Recorded {
        self.write_config(&input);
        fs::create_dir_all(self.path("bundle")).unwrap();
        let mounts = input.mounts.iter();
        let mounts: Vec<Value> = mounts
            .map(|(source, destination)| json!({"source": source, "destination": destination}))
            .collect();
        let annotations: serde_json::Map<_, _> = input
            .annotations
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {"user": {"uid": 0, "gid": 0}, "args": ["sh"], "cwd": "/", "env": input.env},
            "root": {"path": "rootfs"},
            "annotations": annotations,
            "mounts": mounts,
            "linux": {},
        });
        let file = self.path("bundle/config.json");
        fs::write(&file, config.to_string()).unwrap();
        let result = self.call("nvidia-container-runtime", &["create", "--bundle"], true);
        let config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let mut given: BTreeSet<u32> = config["linux"]["devices"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|device| device["major"] == 235)
            .map(|device| u32::try_from(device["minor"].as_u64().unwrap()).unwrap())
            .collect();
        let mut error = result.err();
        if !config["hooks"]["prestart"].is_null() && error.is_none() {
            let called = self.call("nvidia-container-runtime-hook", &["prestart"], false);
            error = called.err();
            given.extend(self.channels_for_the_cli());
        }
        if error.is_some() {
            given.clear();
        }
        Recorded {
            input,
            given,
            error,
        }
    }

    /// NVIDIA's hook requests the devices from its program nvidia-container-cli.
    fn channels_for_the_cli(&self) -> BTreeSet<u32> {
        let arguments = fs::read_to_string(self.path("cli.txt")).unwrap_or_default();
        let mut arguments = arguments.split_ascii_whitespace();
        let list = arguments.find_map(|argument| argument.strip_prefix("--imex-channel="));
        let list = list.into_iter().flat_map(|list| list.split(','));
        let number = |text: &str| text.trim_start_matches("channel").parse().ok();
        list.flat_map(|text| match text {
            "all" => vec![0, 1],
            text => number(text).into_iter().collect(),
        })
        .collect()
    }

    fn call(&self, program: &str, arguments: &[&str], with_bundle: bool) -> Result<(), String> {
        let _ = fs::remove_file(self.path("cli.txt"));
        let bundle = self.path("bundle");
        let state = self.path("state.json");
        fs::write(&state, json!({"pid": 1, "bundle": bundle}).to_string()).unwrap();
        let mut command = Command::new(self.programs.join(program));
        command.args(arguments);
        if with_bundle {
            command.arg(&bundle).arg("id");
        }
        let output = command
            .env("NVIDIA_CTK_CONFIG_FILE_PATH", self.path("config.toml"))
            .env("XDG_CONFIG_HOME", self.path("."))
            .stdin(fs::File::open(state).unwrap())
            .stdout(Stdio::piped())
            .output()
            .unwrap();
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let root = self.root.path().to_str().unwrap();
        Err(error_of(&text).replace(root, ""))
    }

    fn write_config(&self, input: &Input) {
        let at = |path: &str| self.path(path).display().to_string();
        let of = |section: &str| -> String {
            let mut lines = input.config.iter();
            if !section.is_empty() {
                lines.find(|line| *line == section);
            }
            let own = lines.take_while(|line| !line.starts_with('['));
            own.flat_map(|line| [line.as_str(), "\n"]).collect()
        };
        let mounts = "accept-nvidia-visible-devices-as-volume-mounts";
        let top = of("");
        let accept = if top.contains(mounts) {
            String::new()
        } else {
            format!("{mounts} = true\n")
        };
        let (features, cdi) = (of("[features]"), of("[nvidia-container-runtime.modes.cdi]"));
        let (driver, cli, low, specs, csv) = (
            at("driver"),
            at("cli"),
            at("low-level"),
            at("specs"),
            at("csv"),
        );
        let text = format!(
            "{accept}{top}[features]\n{features}\
             [nvidia-container-cli]\nroot = \"{driver}\"\npath = \"{cli}\"\n\
             [nvidia-container-runtime]\nruntimes = [\"{low}\"]\nmode = \"{mode}\"\n\
             [nvidia-container-runtime.modes.csv]\nmount-spec-path = \"{csv}\"\n\
             [nvidia-container-runtime.modes.cdi]\nspec-dirs = [\"{specs}\"]\n{cdi}",
            mode = input.mode
        );
        fs::write(self.path("config.toml"), text).unwrap();
        let beside = self.path("nvidia-container-runtime");
        fs::create_dir_all(&beside).unwrap();
        fs::copy(self.path("config.toml"), beside.join("config.toml")).unwrap();
    }
}
