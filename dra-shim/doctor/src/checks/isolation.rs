//! What goes around claims: the toolkit's environment variable, a systemd that
//! takes devices away, and containers that get devices in other ways.

use toml::{Table, Value};

use crate::area::AreaReport;
use crate::files::HostFiles;
use crate::finding::Finding;

const TOOLKIT_CONFIGS: [&str; 2] = [
    "/etc/nvidia-container-runtime/config.toml",
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
];
const TOOLKITS: [&str; 2] = [
    "/usr/bin/nvidia-container-runtime",
    "/usr/local/nvidia/toolkit/nvidia-container-runtime",
];
const IGNORE: &str = "ignore-imex-channel-requests";

/// Where the name of systemd's own library has its version.
const SYSTEMD_DIRS: [&str; 3] = ["/usr/lib/systemd", "/lib/systemd", "/usr/lib64/systemd"];

/// From this one on, a reload leaves devices that it does not know.
const SYSTEMD_KEEPS_DEVICES: u32 = 240;

const KATA: [&str; 3] = [
    "/opt/kata",
    "/usr/bin/kata-runtime",
    "/usr/bin/containerd-shim-kata-v2",
];

pub(super) fn check(files: &HostFiles) -> AreaReport {
    let mut findings = Vec::new();
    let config = files.first(&TOOLKIT_CONFIGS);
    let toolkit = config.or_else(|| files.first(&TOOLKITS));
    if let Some(subject) = toolkit {
        findings.extend(of_toolkit(files, config, subject));
    }
    let systemd = systemd_version(files);
    findings.extend(
        systemd
            .filter(|it| *it < SYSTEMD_KEEPS_DEVICES)
            .map(of_systemd),
    );
    findings.extend(of_user_namespaces(files));
    findings.extend(of_kata(files));
    let toolkit = toolkit.map_or("no NVIDIA toolkit", |_| "NVIDIA toolkit");
    let systemd = systemd.map_or_else(String::new, |version| format!(", systemd {version}"));
    AreaReport::new(format!("{toolkit}{systemd}"), findings)
}

/// Unless it is told otherwise, an image's `NVIDIA_IMEX_CHANNELS` gets any
/// channel, without a claim.
fn of_toolkit(files: &HostFiles, config: Option<&str>, subject: &str) -> Option<Finding> {
    let text = config.map_or(Ok(None), |config| files.text(config));
    let table = match text.map(|text| text.unwrap_or_default().parse::<Table>()) {
        Ok(Ok(table)) => table,
        Err(error) => return Some(unread(subject, &format!("cannot be read: {error}"))),
        Ok(Err(_)) => return Some(unread(subject, "is no TOML")),
    };
    let features = table.get("features").and_then(Value::as_table);
    let ignored = features.and_then(|it| it.get(IGNORE).and_then(Value::as_bool));
    (ignored != Some(true)).then(|| {
        Finding::warning(
            "imex-channels-env-bypass",
            subject,
            format!("features.{IGNORE} is not set: a container with NVIDIA_IMEX_CHANNELS in its environment gets channels without a claim"),
            format!("nvidia-ctk config --in-place --set features.{IGNORE}=true"),
        )
    })
}

fn unread(config: &str, why: &str) -> Finding {
    Finding::warning(
        "toolkit-config-unreadable",
        config,
        format!(
            "it {why}: whether a container with NVIDIA_IMEX_CHANNELS in its environment gets channels without a claim is not known"
        ),
        format!(
            "correct the file, or run this as root; it is to have {IGNORE} = true below [features]"
        ),
    )
}

/// `libsystemd-shared-252.so`, `libsystemd-shared-239-78.el8.so`.
fn systemd_version(files: &HostFiles) -> Option<u32> {
    let names = SYSTEMD_DIRS.iter().flat_map(|dir| files.names(dir));
    let versions = names.filter_map(|name| {
        let rest = name.strip_prefix("libsystemd-shared-")?;
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        rest.get(..end)?.parse().ok()
    });
    versions.max()
}

fn of_systemd(version: u32) -> Finding {
    Finding::warning(
        "systemd-drops-devices",
        format!("systemd {version}"),
        "before 240, `systemctl daemon-reload` takes away devices that a runtime gave to running containers",
        "update systemd, or use the cgroupfs driver of kubelet and runtime",
    )
}

/// kubelet only starts pods with `hostUsers: false` if it has a range of IDs.
fn of_user_namespaces(files: &HostFiles) -> Option<Finding> {
    let text = files.text_if_any("/etc/subuid")?;
    let range = text.lines().find(|line| line.starts_with("kubelet:"))?;
    Some(Finding::info(
        "user-namespaces-possible",
        "/etc/subuid",
        format!(
            "{range}: in pods with hostUsers: false, runc binds device nodes from the host, where IMEX channels need not exist"
        ),
        "make the channels' nodes on the host for such pods (nvidia-modprobe -i 0:1), or do not use claims in them",
    ))
}

fn of_kata(files: &HostFiles) -> Option<Finding> {
    let evidence = files.first(&KATA)?;
    Some(Finding::info(
        "kata-present",
        evidence,
        "in Kata containers CDI is resolved in the guest, where the host's channels do not exist",
        "do not use ComputeDomain claims in pods with a Kata RuntimeClass",
    ))
}
