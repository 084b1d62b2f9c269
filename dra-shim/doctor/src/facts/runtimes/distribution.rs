//! Distributions of Kubernetes and Linux that write containerd's configuration themselves, and
//! where they keep settings that survive this.
//!
//! Sources: their documentation, "Configuring containerd" of k3s and RKE2, "Runtime" of k0s,
//! "Configuring services" of `MicroK8s`, `virtualisation.containerd.settings` of NixOS.

use std::fs;

use super::model::Edit;
use super::written::{ConfigFiles, Key};
use crate::host::Host;
use crate::systemd::unit_paths;

const DEFAULT_TABLE: &str = "plugins.\"io.containerd.grpc.v1.cri\"";

const K3S: &str = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml";
const RKE2: &str = "/var/lib/rancher/rke2/agent/etc/containerd/config.toml";
/// The suffix of the paths of k3s and RKE2, in any data directory.
const BELOW_DATA: &str = "/agent/etc/containerd/config.toml";
const K0S: &str = "/etc/k0s/containerd.toml";
const K0S_DROP_INS: &str = "/etc/k0s/containerd.d";
const NIX_STORE: &str = "/nix/store/";
const MICROK8S: &str = "/var/snap/microk8s/current/args/containerd.toml";
/// The directory of `MicroK8s`' revisions; its process is started with a path in a revision.
const MICROK8S_DIR: &str = "/var/snap/microk8s/";

/// The distribution that writes a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distribution {
    K3s,
    Rke2,
    K0s,
    MicroK8s,
    NixOs,
}

/// Systems that write the files below `/etc` themselves, by their ID in `os-release`, and where
/// administrators set the contents.
const MANAGED_SYSTEMS: [(&str, &str); 4] = [
    (
        "talos",
        " (through the machine config: Talos writes the file)",
    ),
    (
        "bottlerocket",
        " (through the settings API: Bottlerocket writes the file)",
    ),
    (
        "rhcos",
        " (through a MachineConfig: the Machine Config Operator writes the file)",
    ),
    (
        "cos",
        " (through a start-up script: /etc is new at each boot)",
    ),
];

/// The program that EKS images of Amazon Linux 2023 run at each boot. Their ID is Amazon
/// Linux's.
const NODEADM: (&str, &str) = (
    "/usr/bin/nodeadm",
    " (through containerd.config in the NodeConfig: nodeadm writes the file at each boot)",
);

/// Where a CDI setting belongs.
pub(super) fn edit(host: &Host, config: &str, written: &ConfigFiles, key: Key) -> Edit {
    let distribution = Distribution::of(host, config);
    let by_distribution = distribution.map(|it| it.edit(host, config, written, key));
    let by_people = || {
        let place = written.place(key).map(|(file, _)| file);
        let note = match place {
            Some(_) => system_note(host),
            None => " (create the file, with `version = 2` as its first line)",
        };
        let file = place.unwrap_or(config).to_owned();
        (file, note, ", and restart containerd".to_owned())
    };
    let (file, note, apply) = by_distribution.unwrap_or_else(by_people);
    let in_file = written.place(key).filter(|(path, _)| *path == file);
    let table = in_file
        .map(|(_, table)| table)
        .or_else(|| written.main_table());
    Edit {
        file,
        table: table.unwrap_or(DEFAULT_TABLE).to_owned(),
        note: note.to_owned(),
        misplaced: written.misplaced(),
        is_set: key == Key::Enable && written.is_on(),
        apply,
    }
}

/// A note on a system that writes the file itself; empty for other systems.
pub(super) fn system_note(host: &Host) -> &'static str {
    let (program, note) = NODEADM;
    if host.exists(program) {
        return note;
    }
    let release = host.text_if_readable("/etc/os-release");
    let release = release.or_else(|| host.text_if_readable("/usr/lib/os-release"));
    let release = release.unwrap_or_default();
    let id = release.lines().find_map(|line| line.strip_prefix("ID="));
    let id = id.unwrap_or_default().trim_matches('"');
    let of_id = MANAGED_SYSTEMS.iter().find(|(of, _)| *of == id);
    of_id.map_or("", |(_, note)| note)
}

// === impl Distribution ===

impl Distribution {
    /// The default paths of their configurations.
    pub(super) fn configs() -> impl Iterator<Item = &'static str> {
        [K3S, RKE2, K0S, MICROK8S].into_iter()
    }

    /// The distribution that writes this configuration.
    pub(super) fn of(host: &Host, config: &str) -> Option<Self> {
        if let Some(data_dir) = config.strip_suffix(BELOW_DATA) {
            let is_rke2 = data_dir.contains("rke2");
            return Some(if is_rke2 { Self::Rke2 } else { Self::K3s });
        }
        match config {
            // A file without that line is the administrator's own.
            K0S => {
                let text = host.text_if_readable(K0S);
                let is_managed = text.is_none_or(|it| it.contains("k0s_managed=true"));
                is_managed.then_some(Self::K0s)
            }
            _ if config.starts_with(MICROK8S_DIR) => Some(Self::MicroK8s),
            _ if config.starts_with(NIX_STORE) => Some(Self::NixOs),
            _ => None,
        }
    }

    /// The socket of its containerd.
    pub(super) fn socket(config: &str) -> Option<&'static str> {
        match config {
            _ if config.ends_with(BELOW_DATA) => Some("/run/k3s/containerd/containerd.sock"),
            K0S => Some("/run/k0s/containerd.sock"),
            _ if config.starts_with(MICROK8S_DIR) => {
                Some("/var/snap/microk8s/common/run/containerd.sock")
            }
            _ => None,
        }
    }

    /// The file, a note on it, and what makes a change effective.
    fn edit(
        self,
        host: &Host,
        config: &str,
        written: &ConfigFiles,
        key: Key,
    ) -> (String, &'static str, String) {
        let set_by = written.place(key).map_or("", |(file, _)| file);
        match self {
            Self::K3s | Self::Rke2 => self.edit_template(host, config, written, set_by),
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
                    "; k0s applies it automatically".to_owned(),
                )
            }
            Self::MicroK8s => {
                let dir = config.rsplit_once('/').map_or(config, |(dir, _)| dir);
                let file = format!("{dir}/containerd-template.toml");
                (
                    file,
                    ", from which MicroK8s generates the configuration",
                    ", and run `snap restart microk8s`".to_owned(),
                )
            }
            Self::NixOs => by_nix(" (virtualisation.containerd.settings)"),
        }
    }

    /// A drop-in if the configuration imports drop-ins; else the template.
    fn edit_template(
        self,
        host: &Host,
        config: &str,
        written: &ConfigFiles,
        set_by: &str,
    ) -> (String, &'static str, String) {
        let (name, [server, agent]) = match self {
            Self::Rke2 => ("RKE2", ["rke2-server", "rke2-agent"]),
            _ => ("k3s", ["k3s", "k3s-agent"]),
        };
        let has = |unit: &str| {
            let unit = format!("{unit}.service");
            let mut paths = unit_paths(&unit);
            paths.any(|path| host.exists(&path))
        };
        let apply = match (has(server), has(agent)) {
            (true, false) => format!(", and restart {server}"),
            (false, true) => format!(", and restart {agent}"),
            _ => format!(", and restart {server} or {agent}"),
        };
        let dir = config.strip_suffix("/config.toml").unwrap_or_default();
        let drop_ins = format!("{dir}/config-v3.toml.d");
        if set_by.starts_with(&drop_ins) {
            return (set_by.to_owned(), "", apply);
        }
        if written.imports(&drop_ins) {
            let file = format!("{drop_ins}/cdi.toml");
            let note = to_be_made(host.exists(&file));
            return (file, note, apply);
        }
        let templates = ["config-v3.toml.tmpl", "config.toml.tmpl"];
        let [v3, v2] = templates.map(|name| format!("{dir}/{name}"));
        let is_of_3 = written
            .main_table()
            .is_some_and(|it| it.contains("cri.v1.runtime"));
        let file = if is_of_3 { v3 } else { v2 };
        let link = fs::read_link(host.resolve(&file));
        if link.is_ok_and(|target| target.starts_with(NIX_STORE)) {
            return by_nix(" (services.k3s.containerdConfigTemplate)");
        }
        let note = match (host.exists(&file), name) {
            (true, "RKE2") => ", from which RKE2 generates the configuration",
            (true, _) => ", from which k3s generates the configuration",
            (false, _) => " (create it as a copy of config.toml in the same directory)",
        };
        (file, note, apply)
    }
}

/// The edit on NixOS: an option of its configuration has the file.
fn by_nix(option: &'static str) -> (String, &'static str, String) {
    (
        "the NixOS configuration".to_owned(),
        option,
        ", and run `nixos-rebuild switch`".to_owned(),
    )
}

fn to_be_made(exists: bool) -> &'static str {
    if exists { "" } else { " (create it)" }
}
