//! Distributions of Kubernetes and of Linux that write containerd's configuration
//! themselves: where a setting belongs so that it survives.
//!
//! From their documentation: "Configuring containerd" of k3s and RKE2, "Runtime" of k0s,
//! "Configuring services" of `MicroK8s`, `virtualisation.containerd.settings` of NixOS.

use super::model::Edit;
use super::written::Written;
use crate::files::HostFiles;
use crate::systemd::DIRS;

const DEFAULT_TABLE: &str = "plugins.\"io.containerd.grpc.v1.cri\"";

const K3S: &str = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml";
const RKE2: &str = "/var/lib/rancher/rke2/agent/etc/containerd/config.toml";
/// The end of those in any data directory.
const BELOW_DATA: &str = "/agent/etc/containerd/config.toml";
const K0S: &str = "/etc/k0s/containerd.toml";
const K0S_DROP_INS: &str = "/etc/k0s/containerd.d";
const MICROK8S: &str = "/var/snap/microk8s/current/args/containerd.toml";
/// By its revision, as its process is started.
const MICROK8S_DIR: &str = "/var/snap/microk8s/";

/// Who writes a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distribution {
    K3s,
    Rke2,
    K0s,
    MicroK8s,
    NixOs,
}

/// Where a setting of CDI belongs.
pub(super) fn edit(files: &HostFiles, config: &str, written: &Written) -> Edit {
    let by_people = || {
        let place = written.place().map(|(file, _)| (file, ""));
        let new = (
            config,
            " (to be made, with `version = 2` as its first line)",
        );
        let (file, note) = place.unwrap_or(new);
        (file.to_owned(), note, ", and restart containerd".to_owned())
    };
    let distribution = Distribution::of(config);
    let by_distribution = distribution.map(|it| it.edit(files, config, written));
    let (file, note, apply) = by_distribution.unwrap_or_else(by_people);
    let in_file = written.place().filter(|(path, _)| *path == file);
    let table = in_file
        .map(|(_, table)| table)
        .or_else(|| written.main_table());
    Edit {
        file,
        table: table.unwrap_or(DEFAULT_TABLE).to_owned(),
        note: note.to_owned(),
        misplaced: written.misplaced(),
        apply,
    }
}

// === impl Distribution ===

impl Distribution {
    /// Their configurations, by default.
    pub(super) fn configs() -> impl Iterator<Item = &'static str> {
        [K3S, RKE2, K0S, MICROK8S].into_iter()
    }

    /// Who writes this configuration.
    pub(super) fn of(config: &str) -> Option<Self> {
        if let Some(data_dir) = config.strip_suffix(BELOW_DATA) {
            let is_rke2 = data_dir.contains("rke2");
            return Some(if is_rke2 { Self::Rke2 } else { Self::K3s });
        }
        match config {
            K0S => Some(Self::K0s),
            _ if config.starts_with(MICROK8S_DIR) => Some(Self::MicroK8s),
            _ if config.starts_with("/nix/store/") => Some(Self::NixOs),
            _ => None,
        }
    }

    /// Where its containerd listens.
    pub(super) fn socket(self) -> Option<&'static str> {
        match self {
            Self::K3s | Self::Rke2 => Some("/run/k3s/containerd/containerd.sock"),
            Self::K0s => Some("/run/k0s/containerd.sock"),
            Self::MicroK8s => Some("/var/snap/microk8s/common/run/containerd.sock"),
            Self::NixOs => None,
        }
    }

    /// The file, what has to be known of it, and what makes it effective.
    fn edit(
        self,
        files: &HostFiles,
        config: &str,
        written: &Written,
    ) -> (String, &'static str, String) {
        let set_by = written.place().map_or("", |(file, _)| file);
        match self {
            Self::K3s | Self::Rke2 => self.edit_template(files, config, written),
            Self::K0s => {
                let is_drop_in = set_by.starts_with(K0S_DROP_INS);
                let file = if is_drop_in {
                    set_by.to_owned()
                } else {
                    format!("{K0S_DROP_INS}/cdi.toml")
                };
                (
                    file,
                    to_be_made(is_drop_in),
                    "; k0s takes it over by itself".to_owned(),
                )
            }
            Self::MicroK8s => {
                let dir = config.rsplit_once('/').map_or(config, |(dir, _)| dir);
                let file = format!("{dir}/containerd-template.toml");
                (
                    file,
                    ", from which MicroK8s makes the configuration",
                    ", and run `snap restart microk8s`".to_owned(),
                )
            }
            Self::NixOs => (
                "the NixOS configuration".to_owned(),
                " (virtualisation.containerd.settings)",
                ", and run `nixos-rebuild switch`".to_owned(),
            ),
        }
    }

    /// A drop-in, where the configuration imports those; else the template.
    fn edit_template(
        self,
        files: &HostFiles,
        config: &str,
        written: &Written,
    ) -> (String, &'static str, String) {
        let (name, [server, agent]) = match self {
            Self::Rke2 => ("RKE2", ["rke2-server", "rke2-agent"]),
            _ => ("k3s", ["k3s", "k3s-agent"]),
        };
        let has = |unit: &str| {
            let mut paths = DIRS.iter().map(|dir| format!("{dir}/{unit}.service"));
            paths.any(|path| files.exists(&path))
        };
        let apply = match (has(server), has(agent)) {
            (true, false) => format!(", and restart {server}"),
            (false, true) => format!(", and restart {agent}"),
            _ => format!(", and restart {server} or {agent}"),
        };
        let dir = config.strip_suffix("/config.toml").unwrap_or_default();
        let drop_ins = format!("{dir}/config-v3.toml.d");
        let set_by = written.place().map_or("", |(file, _)| file);
        if set_by.starts_with(&drop_ins) {
            return (set_by.to_owned(), "", apply);
        }
        if written.imports(&drop_ins) {
            let file = format!("{drop_ins}/cdi.toml");
            let note = to_be_made(files.exists(&file));
            return (file, note, apply);
        }
        let templates = ["config-v3.toml.tmpl", "config.toml.tmpl"];
        let [v3, v2] = templates.map(|name| format!("{dir}/{name}"));
        let is_of_3 = written
            .main_table()
            .is_some_and(|it| it.contains("cri.v1.runtime"));
        let file = if is_of_3 { v3 } else { v2 };
        let note = match (files.exists(&file), name) {
            (true, "RKE2") => ", from which RKE2 makes the configuration",
            (true, _) => ", from which k3s makes the configuration",
            (false, "RKE2") => " (to be made from RKE2's default template, which has the table)",
            (false, _) => " (to be made from k3s' default template, which has the table)",
        };
        (file, note, apply)
    }
}

fn to_be_made(exists: bool) -> &'static str {
    if exists { "" } else { " (to be made)" }
}
