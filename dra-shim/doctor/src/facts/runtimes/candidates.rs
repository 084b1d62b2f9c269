//! What may serve kubelet on a host, and what people start containers with.

use super::distribution::Distribution;
use super::model::{Runtime, RuntimeKind};
use super::running::{self, Running};
use super::written::{CRIO_CONFIG, CRIO_DROP_INS};
use crate::files::HostFiles;
use crate::packages;

pub(super) const CONTAINERD_CONFIG: &str = "/etc/containerd/config.toml";
const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
const CRIO_CONFIGS: [&str; 2] = [CRIO_CONFIG, CRIO_DROP_INS];
const CRIO_SOCKET: &str = "/run/crio/crio.sock";
/// With one of them its usual files do not decide.
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
    /// The option of its command line that takes the place of the files that are read here.
    pub(super) option: Option<&'static str>,
}

/// Each containerd with a configuration of its own, CRI-O, cri-dockerd.
pub(super) fn find(files: &HostFiles) -> Vec<Candidate> {
    let mut found = containerd(files);
    found.extend(crio(files));
    found.extend(cri_dockerd(files));
    found
}

/// Docker and podman.
pub(super) fn of_people(files: &HostFiles) -> impl Iterator<Item = Runtime> {
    let docker = installed(
        files,
        "dockerd",
        RuntimeKind::Docker,
        &["docker-ce", "docker.io"],
    );
    let podman = installed(files, "podman", RuntimeKind::Podman, &["podman"]);
    docker.into_iter().chain(podman)
}

/// Those that run, and those with a file that nothing that runs was started with.
fn containerd(files: &HostFiles) -> Vec<Candidate> {
    let new = |config: &str, running: Option<&Running>| {
        let is_own = config == CONTAINERD_CONFIG;
        let version = is_own.then(|| packages::version(files, &["containerd.io", "containerd"]));
        let own_socket = Distribution::socket(config);
        let address = running.and_then(|it| it.option(&["--address", "-a"]));
        Candidate {
            runtime: Runtime {
                kind: RuntimeKind::Containerd,
                version: version.flatten(),
                config: files.exists(config).then(|| config.to_owned()),
            },
            socket: plain(address.or(own_socket).unwrap_or(CONTAINERD_SOCKET)),
            runs: running.is_some(),
            option: None,
        }
    };
    let running = running::find(files, &["containerd"]);
    let config_of = |it: &Running| it.config().unwrap_or(CONTAINERD_CONFIG).to_owned();
    let started: Vec<String> = running.iter().map(config_of).collect();
    let mut found: Vec<Candidate> = Vec::new();
    for (config, process) in started.iter().zip(&running) {
        found.push(new(config, Some(process)));
    }
    let is_installed = program(files, "containerd") || files.exists(CONTAINERD_CONFIG);
    let own = is_installed.then_some(CONTAINERD_CONFIG);
    let of_distributions = Distribution::configs().filter(|it| files.exists(it));
    for config in own.into_iter().chain(of_distributions) {
        // MicroK8s starts it with a name of the same file that has a revision in it.
        let is_same = |it: &String| {
            it == config
                || files
                    .target_id(it)
                    .is_some_and(|id| files.target_id(config) == Some(id))
        };
        if !started.iter().any(is_same) {
            found.push(new(config, None));
        }
    }
    found
}

fn crio(files: &HostFiles) -> Option<Candidate> {
    let running = running::find(files, &["crio"]).into_iter().next();
    let has_files = files.first_existing(&CRIO_CONFIGS).is_some();
    let is_there = running.is_some() || program(files, "crio") || has_files;
    let option = |names: &[&str]| running.as_ref()?.option(names).map(str::to_owned);
    is_there.then(|| Candidate {
        runtime: Runtime {
            kind: RuntimeKind::CriO,
            version: packages::version(files, &["cri-o"]),
            config: files.exists(CRIO_CONFIG).then(|| CRIO_CONFIG.to_owned()),
        },
        socket: plain(&option(&["--listen"]).unwrap_or_else(|| CRIO_SOCKET.to_owned())),
        runs: running.is_some(),
        option: CRIO_OPTIONS
            .into_iter()
            .find(|(long, short)| option(&[long, short]).is_some())
            .map(|(long, _)| long),
    })
}

/// k3s has it built in, and makes its socket.
fn cri_dockerd(files: &HostFiles) -> Option<Candidate> {
    let running = running::find(files, &["cri-dockerd"]).into_iter().next();
    let socket = files.first_existing(&CRI_DOCKERD_SOCKETS);
    let is_there = running.is_some() || socket.is_some() || program(files, "cri-dockerd");
    let [usual, _] = CRI_DOCKERD_SOCKETS;
    is_there.then(|| Candidate {
        runtime: Runtime {
            kind: RuntimeKind::CriDockerd,
            version: packages::version(files, &["cri-dockerd"]),
            config: None,
        },
        socket: socket.unwrap_or(usual).to_owned(),
        runs: running.is_some(),
        option: None,
    })
}

fn installed(
    files: &HostFiles,
    name: &str,
    kind: RuntimeKind,
    packages: &[&str],
) -> Option<Runtime> {
    program(files, name).then(|| Runtime {
        kind,
        version: packages::version(files, packages),
        config: None,
    })
}

fn program(files: &HostFiles, name: &str) -> bool {
    ["/usr/bin", "/usr/local/bin"]
        .iter()
        .any(|dir| files.exists(&format!("{dir}/{name}")))
}

/// A socket's path: without `unix://`, and `/run` for `/var/run`.
pub(super) fn plain(endpoint: &str) -> String {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    path.strip_prefix("/var/run/")
        .map_or_else(|| path.to_owned(), |rest| format!("/run/{rest}"))
}
