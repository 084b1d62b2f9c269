//! k3s and RKE2, which bring containerd with them and write its configuration from a
//! template each time that they start.
//!
//! `writeContainerdConfig` of `pkg/agent/containerd/config.go` of k3s, which RKE2 uses
//! too; "Configuring containerd" in the documentation of both.

use toml::Value;

use super::files::{ConfigFile, imports};
use super::layer::Place;
use crate::facts::runtimes::model::{SettingPlace, Source};
use crate::files::HostFiles;
use crate::systemd::{DIRS, is_wanted};

/// The configurations in the default data directories.
pub(super) const CONFIGS: [&str; 2] = [
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
];
/// The end of the configuration's path, below any data directory.
const BELOW_DATA: &str = "/agent/etc/containerd/config.toml";

/// The one of the two that writes a configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Distribution {
    name: &'static str,
    /// Its units: of a server, and of an agent.
    units: [&'static str; 2],
}

const K3S: Distribution = Distribution {
    name: "k3s",
    units: ["k3s", "k3s-agent"],
};
const RKE2: Distribution = Distribution {
    name: "rke2",
    units: ["rke2-server", "rke2-agent"],
};

// === impl Distribution ===

impl Distribution {
    /// Which one writes this configuration.
    pub(super) fn of(config: &str) -> Option<Self> {
        let data_dir = config.strip_suffix(BELOW_DATA)?;
        Some(if data_dir.contains("rke2") { RKE2 } else { K3S })
    }

    /// The unit to restart; both, if it is not known which one runs here.
    pub(super) fn service(self, files: &HostFiles) -> String {
        let is_wanted = |unit: &str| is_wanted(files, &format!("{unit}.service"));
        let is_there = |unit: &str| {
            let mut paths = DIRS.iter().map(|dir| format!("{dir}/{unit}.service"));
            paths.any(|path| files.exists(&path))
        };
        let [server, agent] = self.units;
        match (is_wanted(server), is_wanted(agent)) {
            (true, false) => return server.to_owned(),
            (false, true) => return agent.to_owned(),
            _ => {}
        }
        match (is_there(server), is_there(agent)) {
            (true, false) => server.to_owned(),
            (false, true) => agent.to_owned(),
            _ => format!("{server} or {agent}"),
        }
    }

    /// Where a setting is to be made that belongs into the configuration itself,
    /// which is written anew at each start.
    pub(super) fn place(
        self,
        files: &HostFiles,
        config: &ConfigFile,
        place: &Place,
    ) -> SettingPlace {
        let dir = config.path.strip_suffix("/config.toml").unwrap_or_default();
        let is_of_2 = config.table.get("version") == Some(&Value::Integer(2));
        let drop_ins = format!("{dir}/config-v3.toml.d");
        let imports = imports(&config.path, &config.table).unwrap_or_default();
        // Not those of version 2: in containerd 1.7 a drop-in replaces the whole table.
        let (file, source) = if imports.contains(&format!("{drop_ins}/*.toml")) {
            (format!("{drop_ins}/cdi.toml"), Source::DropIn)
        } else {
            let name = if is_of_2 {
                "config.toml.tmpl"
            } else {
                "config-v3.toml.tmpl"
            };
            let file = format!("{dir}/{name}");
            let exists = files.exists(&file);
            (
                file,
                Source::Template {
                    of: self.name,
                    exists,
                },
            )
        };
        SettingPlace {
            file,
            plugin: place.plugin,
            source,
        }
    }
}
