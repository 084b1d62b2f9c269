//! The runtime that serves kubelet, and its settings.

use super::answer::{self, Answer};
use super::candidates::{CONTAINERD_CONFIG, Candidate};
use super::distribution::{self, Distribution};
use super::endpoint::Kubelet;
use super::model::{CdiSettings, CdiSupport, Edit, KubeletRuntime, Runtime, RuntimeKind, Settings};
use super::written::{self, CRIO_DROP_INS, ConfigFiles, Key, TomlError};
use crate::cri::CriError;
use crate::host::Host;
use crate::processes::is_live;

/// The first release, major and minor, that reads the devices of claims from the CRI field
/// `CDIDevices`, where kubelet puts them. Older CRI-O read them from annotations.
const CONTAINERD_WITH_CDI: (u32, u32) = (1, 7);
/// See [`CONTAINERD_WITH_CDI`].
const CRIO_WITH_CDI: (u32, u32) = (1, 28);

/// Reads the settings in a runtime's files.
fn read(host: &Host, candidate: &Candidate) -> Result<ConfigFiles, TomlError> {
    match candidate.runtime.kind {
        RuntimeKind::CriO => written::crio(host),
        _ => written::containerd(host, config_of(&candidate.runtime)),
    }
}

fn config_of(runtime: &Runtime) -> &str {
    runtime.config.as_deref().unwrap_or(CONTAINERD_CONFIG)
}

// === impl Kubelet ===

impl Kubelet {
    /// Removes kubelet's runtime from `candidates` and examines it; `None` if it is unknown
    /// which one that is.
    pub(super) fn runtime(
        &self,
        host: &Host,
        candidates: &mut Vec<Candidate>,
    ) -> Option<KubeletRuntime> {
        let candidate = match &self.socket {
            Some(socket) => {
                let id = host.target_id(socket);
                let is_same = |it: &Candidate| {
                    it.socket == *socket || id.is_some() && host.target_id(&it.socket) == id
                };
                let place = candidates.iter().position(is_same);
                place.map_or_else(|| unseen(socket), |place| candidates.remove(place))
            }
            None => candidates.remove(likely(host, candidates)?),
        };
        Some(self.examine(host, &candidate))
    }

    fn examine(&self, host: &Host, candidate: &Candidate) -> KubeletRuntime {
        let socket = candidate.socket.clone();
        let asked = answer::ask(host, &host.resolve_target(&socket));
        let written = read(host, candidate);
        let mut runtime = candidate.runtime.clone();
        let settings = match asked {
            Ok(answer) => {
                let Answer { kind, version, .. } = answer;
                runtime.kind = kind;
                runtime.version = version.or(runtime.version);
                Settings::FromRuntime(with_release(&runtime, answer.settings))
            }
            Err(CriError::WithoutCri) => {
                Settings::WithoutCri(written.as_ref().ok().and_then(|it| it.disabled(host)))
            }
            // On a copy of a host's files, no runtime can answer.
            Err(error @ CriError::Absent)
                if self.runs && self.socket.is_some() && is_live(host) =>
            {
                Settings::NoAnswer(error.to_string())
            }
            Err(error @ (CriError::Absent | CriError::Denied)) => {
                settings_from_files(host, candidate, &written, &error)
            }
            Err(error @ (CriError::TimedOut | CriError::Failed(_))) => {
                Settings::NoAnswer(error.to_string())
            }
        };
        let is_off = match &settings {
            Settings::FromRuntime(it) | Settings::ConfigFiles(it) => it.support != CdiSupport::On,
            _ => true,
        };
        let key = if is_off { Key::Enable } else { Key::SpecDirs };
        let written = written.unwrap_or_default();
        KubeletRuntime {
            edit: edit(host, candidate.option, &runtime, &written, key),
            runtime,
            socket,
            settings,
        }
    }
}

/// A runtime of which only the socket is known.
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
        option: None,
    }
}

/// The index of the only candidate that can serve kubelet, if kubelet's options are not visible.
/// A distribution's kubelet uses the distribution's runtime. A running runtime precedes others; a
/// containerd without CRI is Docker's; and cri-dockerd exists only for kubelet.
fn likely(host: &Host, candidates: &[Candidate]) -> Option<usize> {
    let of_distribution = |it: &Candidate| {
        let config = it.runtime.config.as_deref();
        config.is_some_and(|it| Distribution::of(host, it).is_some())
    };
    let serves = |it: &Candidate| {
        let written = read(host, it);
        written.is_ok_and(|written| written.disabled(host).is_none())
    };
    let is_cri_dockerd = |it: &Candidate| it.runtime.kind == RuntimeKind::CriDockerd;
    let runs = |it: &Candidate| it.runs;
    let rules: [&dyn Fn(&Candidate) -> bool; 4] =
        [&of_distribution, &runs, &serves, &is_cri_dockerd];
    let mut left: Vec<(usize, &Candidate)> = candidates.iter().enumerate().collect();
    for rule in rules {
        // Later rules read files, which are read again for the remaining candidate.
        if left.len() < 2 {
            break;
        }
        if left.iter().any(|(_, it)| rule(it)) {
            left.retain(|(_, it)| rule(it));
        }
    }
    match left.as_slice() {
        [(place, _)] => Some(*place),
        _ => None,
    }
}

fn settings_from_files(
    host: &Host,
    candidate: &Candidate,
    written: &Result<ConfigFiles, TomlError>,
    asked: &CriError,
) -> Settings {
    let runtime = &candidate.runtime;
    let unknown = |why: &str| {
        let why = format!("the runtime cannot be queried from here ({asked}), and {why}");
        CdiSupport::Unknown(why)
    };
    let settings = match written {
        _ if runtime.kind == RuntimeKind::CriDockerd => answer::only(CdiSupport::Absent),
        Err(TomlError::Malformed(why)) => return Settings::Malformed(why.clone()),
        Err(TomlError::Unreadable(why)) => answer::only(unknown(why)),
        Ok(_) if runtime.kind == RuntimeKind::Other => {
            answer::only(unknown("its configuration files are unknown"))
        }
        Ok(_) if let Some(option) = candidate.option => {
            answer::only(unknown(&format!("its command line has {option}")))
        }
        Ok(written) => {
            let found = match runtime.kind {
                RuntimeKind::CriO => written.of_crio(),
                _ => match written.disabled(host) {
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
    Settings::ConfigFiles(with_release(runtime, settings))
}

/// Corrects the settings of a release without CDI support, whatever its configuration has.
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
    host: &Host,
    option: Option<&'static str>,
    runtime: &Runtime,
    written: &ConfigFiles,
    key: Key,
) -> Option<Edit> {
    match runtime.kind {
        RuntimeKind::Containerd => {
            let config = config_of(runtime);
            Some(distribution::edit(host, config, written, key))
        }
        RuntimeKind::CriO => {
            let set_by = written.place(key).filter(|_| written.sets_dirs());
            let (file, note) = match (option, set_by) {
                (Some(option), _) => ("crio's command line".to_owned(), format!(" ({option})")),
                (None, Some((file, _))) => {
                    let note = distribution::system_note(host);
                    (file.to_owned(), note.to_owned())
                }
                (None, None) => {
                    let new = format!("{CRIO_DROP_INS}/99-cdi.conf");
                    (new, " (create it)".to_owned())
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
