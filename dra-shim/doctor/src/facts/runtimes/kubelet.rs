//! Which runtime serves kubelet, and what is known of it.

use std::os::unix::fs::MetadataExt;

use super::answer::{self, Answer};
use super::candidates::{CONTAINERD_CONFIG, Candidate, plain};
use super::distribution::{self, Distribution};
use super::model::{CdiSettings, CdiSupport, Edit, KubeletRuntime, Runtime, RuntimeKind, Settings};
use super::running::{self, Running};
use super::toml_file::TomlError;
use super::written::{self, CRIO_DROP_INS, Key, Written};
use crate::cri::CriError;
use crate::files::HostFiles;
use crate::kubelet_state::KUBELET_STATE_FILE;

/// What kubelet writes into its root directory.
const STATE: [&str; 3] = [KUBELET_STATE_FILE, "cpu_manager_state", "pods"];
const ENDPOINT: &str = "--container-runtime-endpoint";
/// Where k3s itself stands for Docker.
const K3S_DOCKER: &str = "/run/k3s/cri-dockerd/cri-dockerd.sock";

/// The first releases, major and minor, that take the devices of claims from where kubelet
/// puts them, the CRI field `CDIDevices`; before, CRI-O took them from annotations.
const CONTAINERD_WITH_CDI: (u32, u32) = (1, 7);
/// See [`CONTAINERD_WITH_CDI`].
const CRIO_WITH_CDI: (u32, u32) = (1, 28);

/// The kubelet of a host.
#[derive(Debug)]
pub(super) struct Kubelet {
    /// The socket that its options or its configuration name.
    socket: Option<String>,
    /// Whether its process is seen.
    runs: bool,
}

/// By its process, or what it has written.
pub(super) fn find(files: &HostFiles, root: &str) -> Option<Kubelet> {
    let process = running::find(files, "kubelet").into_iter().next();
    let has_state = STATE
        .iter()
        .any(|name| files.exists(&format!("{root}/{name}")));
    if process.is_none() && !has_state {
        return None;
    }
    let named = match &process {
        Some(process) => of_process(files, process),
        // As kubeadm starts it.
        None => in_flags(files, &format!("{root}/kubeadm-flags.env"))
            .or_else(|| in_config(files, &format!("{root}/config.yaml")))
            .or_else(|| of_rancher(files)),
    };
    Some(Kubelet {
        socket: named.map(|it| plain(&it)),
        runs: process.is_some(),
    })
}

/// An option comes before the files of `--config-dir`, of which the last decides, and
/// those before the one of `--config`.
fn of_process(files: &HostFiles, process: &Running) -> Option<String> {
    let option = process.option(&[ENDPOINT]).map(str::to_owned);
    let in_dir = || {
        let dir = process.option(&["--config-dir"])?;
        let names = files.list(dir).into_iter().rev();
        let mut names = names.filter(|name| name.strip_suffix(".conf").is_some());
        names.find_map(|name| in_config(files, &format!("{dir}/{name}")))
    };
    let in_file = || in_config(files, process.option(&["--config"])?);
    option.or_else(in_dir).or_else(in_file)
}

/// k3s has kubelet in its own process, and RKE2 starts it: both by their own options and
/// files.
fn of_rancher(files: &HostFiles) -> Option<String> {
    let processes = ["k3s-server", "k3s-agent", "k3s", "rke2"].into_iter();
    let running = processes.flat_map(|name| running::find(files, name));
    let by_option = |process: Running| {
        let docker = process.has(&["--docker"]).then(|| K3S_DOCKER.to_owned());
        let named = process.option(&[ENDPOINT]).map(str::to_owned);
        named.or(docker)
    };
    let by_file = || {
        let found = ["k3s", "rke2"].into_iter().flat_map(|name| {
            let dir = format!("/etc/rancher/{name}/config.yaml.d");
            let drop_ins = files.list(&dir).into_iter().rev();
            let drop_ins = drop_ins.map(move |file| format!("{dir}/{file}"));
            drop_ins.chain([format!("/etc/rancher/{name}/config.yaml")])
        });
        let texts = found.filter_map(|path| files.text_if_readable(&path));
        texts.into_iter().find_map(|text| {
            let docker = value(&text, "docker:").filter(|it| *it == "true");
            let named = value(&text, "container-runtime-endpoint:");
            named
                .or_else(|| docker.map(|_| K3S_DOCKER))
                .map(str::to_owned)
        })
    };
    running.into_iter().find_map(by_option).or_else(by_file)
}

/// `containerRuntimeEndpoint` of a `KubeletConfiguration` in YAML.
fn in_config(files: &HostFiles, path: &str) -> Option<String> {
    let text = files.text_if_readable(path)?;
    value(&text, "containerRuntimeEndpoint:").map(str::to_owned)
}

/// What a line of YAML has at a key of the top.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    let value = value.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then_some(value)
}

fn in_flags(files: &HostFiles, path: &str) -> Option<String> {
    let text = files.text_if_readable(path)?;
    let mut words = text.split(|it: char| it.is_whitespace() || "\"'".contains(it));
    let value = words.find_map(|word| word.strip_prefix(ENDPOINT)?.strip_prefix('='))?;
    Some(value.to_owned())
}

/// What its files say of a runtime that is not asked.
fn read(files: &HostFiles, candidate: &Candidate) -> Result<Written, TomlError> {
    match candidate.runtime.kind {
        RuntimeKind::CriO => written::crio(files),
        _ => written::containerd(files, config_of(&candidate.runtime)),
    }
}

fn config_of(runtime: &Runtime) -> &str {
    runtime.config.as_deref().unwrap_or(CONTAINERD_CONFIG)
}

// === impl Kubelet ===

impl Kubelet {
    /// Takes the one that serves it out of `candidates`; `None` if nothing tells which.
    pub(super) fn runtime(
        &self,
        files: &HostFiles,
        candidates: &mut Vec<Candidate>,
    ) -> Option<KubeletRuntime> {
        let candidate = match &self.socket {
            Some(socket) => {
                let id = files.target_id(socket);
                let is_same = |it: &Candidate| {
                    it.socket == *socket || id.is_some() && files.target_id(&it.socket) == id
                };
                let place = candidates.iter().position(is_same);
                place.map_or_else(|| unseen(socket), |place| candidates.remove(place))
            }
            None => candidates.remove(likely(files, candidates)?),
        };
        Some(self.examine(files, &candidate))
    }

    fn examine(&self, files: &HostFiles, candidate: &Candidate) -> KubeletRuntime {
        let socket = candidate.socket.clone();
        let asked = answer::ask(files, &files.resolve_target(&socket));
        let written = read(files, candidate);
        let mut runtime = candidate.runtime.clone();
        let settings = match asked {
            Ok(answer) => {
                let Answer { kind, version, .. } = answer;
                runtime.kind = kind;
                runtime.version = version.or(runtime.version);
                Settings::Asked(with_release(&runtime, answer.settings))
            }
            Err(CriError::WithoutCri) => {
                Settings::WithoutCri(written.as_ref().ok().and_then(|it| it.disabled(files)))
            }
            // A host that is only files has no runtime that could answer.
            Err(error @ CriError::Absent)
                if self.runs && self.socket.is_some() && is_live(files) =>
            {
                Settings::NoAnswer(error.to_string())
            }
            Err(error @ (CriError::Absent | CriError::Denied)) => {
                unasked(files, candidate, &written, &error)
            }
            Err(error @ (CriError::TimedOut | CriError::Failed(_))) => {
                Settings::NoAnswer(error.to_string())
            }
        };
        let is_off = match &settings {
            Settings::Asked(it) | Settings::Written(it) => it.support != CdiSupport::On,
            _ => true,
        };
        let key = if is_off { Key::Enable } else { Key::SpecDirs };
        let written = written.unwrap_or_default();
        KubeletRuntime {
            edit: edit(files, candidate.options, &runtime, &written, key),
            runtime,
            socket,
            settings,
        }
    }
}

/// One of which only the socket is known.
fn unseen(socket: &str) -> Candidate {
    let kind = match socket {
        _ if socket.contains("crio") => RuntimeKind::CriO,
        _ if socket.contains("dockerd") => RuntimeKind::CriDockerd,
        _ if socket.contains("containerd") => RuntimeKind::Containerd,
        _ => RuntimeKind::Other,
    };
    Candidate {
        runtime: Runtime {
            kind,
            version: None,
            config: None,
        },
        socket: socket.to_owned(),
        runs: false,
        options: None,
    }
}

/// The place of the only one that it can be, where kubelet's own options are not seen: a
/// distribution's kubelet has the distribution's runtime; one that runs comes before one
/// that does not, and one without CRI is Docker's; and cri-dockerd is there for kubelet
/// only.
fn likely(files: &HostFiles, candidates: &[Candidate]) -> Option<usize> {
    let of_distribution = |it: &Candidate| {
        let config = it.runtime.config.as_deref();
        config.is_some_and(|it| Distribution::of(files, it).is_some())
    };
    let serves = |it: &Candidate| {
        let written = read(files, it);
        written.is_ok_and(|written| written.disabled(files).is_none())
    };
    let is_cri_dockerd = |it: &Candidate| it.runtime.kind == RuntimeKind::CriDockerd;
    let runs = |it: &Candidate| it.runs;
    let rules: [&dyn Fn(&Candidate) -> bool; 4] =
        [&of_distribution, &runs, &serves, &is_cri_dockerd];
    let mut left: Vec<(usize, &Candidate)> = candidates.iter().enumerate().collect();
    for rule in rules {
        if left.iter().any(|(_, it)| rule(it)) {
            left.retain(|(_, it)| rule(it));
        }
    }
    match left.as_slice() {
        [(place, _)] => Some(*place),
        _ => None,
    }
}

fn unasked(
    files: &HostFiles,
    candidate: &Candidate,
    written: &Result<Written, TomlError>,
    asked: &CriError,
) -> Settings {
    let runtime = &candidate.runtime;
    let unknown = |why: &str| {
        let why = format!("it cannot be asked from here ({asked}), and {why}");
        CdiSupport::Unknown(why)
    };
    let settings = match written {
        _ if runtime.kind == RuntimeKind::CriDockerd => answer::only(CdiSupport::Absent),
        Err(TomlError::Malformed(why)) => return Settings::Malformed(why.clone()),
        Err(TomlError::Unreadable(why)) => answer::only(unknown(why)),
        Ok(_) if runtime.kind == RuntimeKind::Other => {
            answer::only(unknown("nothing is known of its files"))
        }
        Ok(_) if let Some(options) = candidate.options => {
            answer::only(unknown(&format!("its command line has {options}")))
        }
        Ok(written) => {
            let found = match runtime.kind {
                RuntimeKind::CriO => written.of_crio(),
                _ => match written.disabled(files) {
                    Some(disabled) => return Settings::WithoutCri(Some(disabled)),
                    None => written.of_containerd(),
                },
            };
            let support = match found.support {
                CdiSupport::Unknown(why) => unknown(&why),
                support => support,
            };
            CdiSettings { support, ..found }
        }
    };
    Settings::Written(with_release(runtime, settings))
}

/// A release from before CDI has none, however it is configured.
fn with_release(runtime: &Runtime, settings: CdiSettings) -> CdiSettings {
    let first = match runtime.kind {
        RuntimeKind::Containerd => CONTAINERD_WITH_CDI,
        RuntimeKind::CriO => CRIO_WITH_CDI,
        _ => return settings,
    };
    let is_before = runtime.major_minor().is_some_and(|it| it < first);
    if is_before {
        let support = CdiSupport::Absent;
        CdiSettings {
            support,
            ..settings
        }
    } else {
        settings
    }
}

fn edit(
    files: &HostFiles,
    options: Option<&'static str>,
    runtime: &Runtime,
    written: &Written,
    key: Key,
) -> Option<Edit> {
    match runtime.kind {
        RuntimeKind::Containerd => {
            let config = config_of(runtime);
            Some(distribution::edit(files, config, written, key))
        }
        RuntimeKind::CriO => {
            let set_by = written.place(key).filter(|_| written.sets_dirs());
            let (file, note) = match (options, set_by) {
                (Some(options), _) => ("crio's command line".to_owned(), format!(" ({options})")),
                (None, Some((file, _))) => {
                    let note = distribution::by_system(files);
                    (file.to_owned(), note.to_owned())
                }
                (None, None) => {
                    let new = format!("{CRIO_DROP_INS}/99-cdi.conf");
                    (new, " (to be made)".to_owned())
                }
            };
            Some(Edit {
                file,
                table: "crio.runtime".to_owned(),
                note,
                misplaced: None,
                is_set: false,
                apply: ", and restart crio".to_owned(),
            })
        }
        _ => None,
    }
}

/// Whether processes run on it: the kernel's own `/proc` has this inode
/// (`PROC_ROOT_INO` of `linux/proc_ns.h`).
fn is_live(files: &HostFiles) -> bool {
    let proc = files.resolve_target("/proc").metadata();
    proc.is_ok_and(|found| found.ino() == 1)
}
