//! The runtimes that may serve kubelet on a host, and those that people use directly.

use std::path::Path;

use super::distribution::Distribution;
use super::model::{Runtime, RuntimeKind};
use super::written::{CRIO_CONFIG, CRIO_DROP_INS};
use crate::host::Host;
use crate::packages;
use crate::processes::{
    Process, ProcessRoot, arguments, config_option, option, process_root, processes,
};

pub(super) const CONTAINERD_CONFIG: &str = "/etc/containerd/config.toml";
const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
const CRIO_CONFIGS: [&str; 2] = [CRIO_CONFIG, CRIO_DROP_INS];
const CRIO_SOCKET: &str = "/run/crio/crio.sock";
/// With one of these options, CRI-O's default files do not decide.
const CRIO_OPTIONS: [(&str, &str); 3] = [
    ("--cdi-spec-dirs", ""),
    ("--config", "-c"),
    ("--config-dir", "-d"),
];
const CRI_DOCKERD_SOCKETS: [&str; 2] = [
    "/run/cri-dockerd.sock",
    "/run/k3s/cri-dockerd/cri-dockerd.sock",
];

/// A runtime that may serve kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) runtime: Runtime,
    pub(super) socket: String,
    pub(super) runs: bool,
    /// The option in its command line that replaces the files that are read here.
    pub(super) option: Option<&'static str>,
}

/// A running program of this host.
#[derive(Debug)]
pub(super) struct Running {
    /// Its own name first; empty if it has exited.
    arguments: Vec<String>,
}

/// Finds each containerd with a configuration of its own, CRI-O and cri-dockerd.
pub(super) fn find(host: &Host) -> Vec<Candidate> {
    let mut found = containerd(host);
    found.extend(crio(host));
    found.extend(cri_dockerd(host));
    found
}

/// Finds Docker and podman.
pub(super) fn find_user_runtimes(host: &Host) -> impl Iterator<Item = Runtime> {
    let docker = ("dockerd", RuntimeKind::Docker, ["docker-ce", "docker.io"]);
    let podman = ("podman", RuntimeKind::Podman, ["podman"; 2]);
    let installed = [docker, podman].into_iter();
    let installed = installed.filter(|(name, ..)| program(host, name));
    installed.map(|(_, kind, packages)| Runtime {
        kind,
        version: packages::version(host, &packages),
        config: None,
    })
}

/// Finds running containerds, and configurations that no running containerd uses.
fn containerd(host: &Host) -> Vec<Candidate> {
    let new = |config: &str, running: Option<&Running>| {
        let is_own = config == CONTAINERD_CONFIG;
        let version = is_own.then(|| packages::version(host, &["containerd.io", "containerd"]));
        let own_socket = Distribution::socket(config);
        let address = running.and_then(|it| it.option(&["--address", "-a"]));
        Candidate {
            runtime: Runtime {
                kind: RuntimeKind::Containerd,
                version: version.flatten(),
                config: host.exists(config).then(|| config.to_owned()),
            },
            socket: plain(address.or(own_socket).unwrap_or(CONTAINERD_SOCKET)),
            runs: running.is_some(),
            option: None,
        }
    };
    let processes = running(host, &["containerd"]);
    let config_of = |it: &Running| it.config().unwrap_or(CONTAINERD_CONFIG).to_owned();
    let started: Vec<String> = processes.iter().map(config_of).collect();
    let mut found: Vec<Candidate> = Vec::new();
    for (config, process) in started.iter().zip(&processes) {
        found.push(new(config, Some(process)));
    }
    let is_installed = program(host, "containerd") || host.exists(CONTAINERD_CONFIG);
    let own = is_installed.then_some(CONTAINERD_CONFIG);
    let of_distributions = Distribution::configs().filter(|it| host.exists(it));
    for config in own.into_iter().chain(of_distributions) {
        // MicroK8s starts it with a path that has a revision in it, of the same file.
        let is_same = |it: &String| {
            let id = host.target_id(it);
            it == config || id.is_some() && host.target_id(config) == id
        };
        if !started.iter().any(is_same) {
            found.push(new(config, None));
        }
    }
    found
}

fn crio(host: &Host) -> Option<Candidate> {
    let running = running(host, &["crio"]).into_iter().next();
    let has_files = host.first_existing(&CRIO_CONFIGS).is_some();
    let is_there = running.is_some() || program(host, "crio") || has_files;
    let option = |names: &[&str]| running.as_ref()?.option(names).map(str::to_owned);
    is_there.then(|| Candidate {
        runtime: Runtime {
            kind: RuntimeKind::CriO,
            version: packages::version(host, &["cri-o"]),
            config: host.exists(CRIO_CONFIG).then(|| CRIO_CONFIG.to_owned()),
        },
        socket: plain(&option(&["--listen"]).unwrap_or_else(|| CRIO_SOCKET.to_owned())),
        runs: running.is_some(),
        option: CRIO_OPTIONS
            .into_iter()
            .find(|(long, short)| option(&[long, short]).is_some())
            .map(|(long, _)| long),
    })
}

/// Finds cri-dockerd, also the one built into k3s, by its socket.
fn cri_dockerd(host: &Host) -> Option<Candidate> {
    let running = running(host, &["cri-dockerd"]).into_iter().next();
    let socket = host.first_existing(&CRI_DOCKERD_SOCKETS);
    let is_there = running.is_some() || socket.is_some() || program(host, "cri-dockerd");
    let [usual, _] = CRI_DOCKERD_SOCKETS;
    is_there.then(|| Candidate {
        runtime: Runtime {
            kind: RuntimeKind::CriDockerd,
            version: packages::version(host, &["cri-dockerd"]),
            config: None,
        },
        socket: socket.unwrap_or(usual).to_owned(),
        runs: running.is_some(),
        option: None,
    })
}

fn program(host: &Host, name: &str) -> bool {
    ["/usr/bin", "/usr/local/bin"]
        .iter()
        .any(|dir| host.exists(&format!("{dir}/{name}")))
}

/// A socket's path without `unix://`, and with `/run` instead of `/var/run`.
pub(super) fn plain(endpoint: &str) -> String {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    path.strip_prefix("/var/run/")
        .map_or_else(|| path.to_owned(), |rest| format!("/run/{rest}"))
}

/// The running programs with any of these names. Only processes of this host that run as root;
/// see [`is_roots`].
pub(super) fn running(host: &Host, names: &[&str]) -> Vec<Running> {
    let processes = processes(host).into_iter();
    let wanted = processes.filter(|process| names.contains(&process.name.as_str()));
    let ours = wanted.filter(|process| {
        is_roots(host, process) && matches!(process_root(host, process.pid), ProcessRoot::Host(_))
    });
    ours.map(|process| Running {
        arguments: arguments(host, process.pid)
            .ok()
            .flatten()
            .unwrap_or_default(),
    })
    .collect()
}

/// Whether a process runs as root. Any user may give a process any name, and the doctor reads and
/// queries as root the paths in its options. (The owner of the process's directory may be root
/// for other users' processes, too.)
fn is_roots(host: &Host, process: &Process) -> bool {
    let status = host.text_if_readable(&format!("/proc/{}/status", process.pid));
    let status = status.unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| users.split_whitespace().all(|user| user == "0"))
}

// === impl Running ===

impl Running {
    /// The configuration that its command line names; `None` for a relative path, which only the
    /// process itself can resolve.
    fn config(&self) -> Option<&str> {
        let config = config_option(&self.arguments)?;
        Path::new(config).is_absolute().then_some(config)
    }

    /// The value of an option, by any of its names.
    pub(super) fn option(&self, names: &[&str]) -> Option<&str> {
        option(&self.arguments, names)
    }

    /// Whether it has an option without a value.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        let mut arguments = self.arguments.iter();
        arguments.any(|it| names.contains(&it.as_str()))
    }
}
