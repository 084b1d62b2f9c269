//! The container runtimes of a host: which CDI directories each reads, if any.

mod containerd;
mod others;
mod running;

use imex_cdi::SpecVersion;

use crate::area::AreaReport;
use crate::files::HostFiles;
use crate::finding::{Finding, Severity};
use crate::runtime_release::RuntimeRelease;

/// A runtime that is installed.
#[derive(Debug)]
pub(super) struct Runtime {
    pub(super) name: &'static str,
    /// `1.7.28`; `None` if it cannot be told cheaply.
    pub(super) version: Option<String>,
    /// The first version, major and minor, that takes CDI devices from kubelet,
    /// where older ones are about.
    first_with_cdi: Option<(u32, u32)>,
    cdi: Cdi,
    /// Those that its configuration names; `None`: the usual ones.
    spec_dirs: Option<Vec<String>>,
    /// Its configuration, if there is one: of several files, the one that says
    /// what is told of it.
    config: Option<String>,
    /// Why that cannot be read.
    fault: Option<String>,
    /// How CDI is turned on.
    turn_on: &'static str,
    /// Whether kubelet runs pods with it.
    for_pods: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cdi {
    On,
    Off,
    /// Its version decides, and is not known.
    Unknown,
}

/// Finds the runtimes. `dirs` are those in which specs are, as the host calls
/// them.
pub(super) fn check(files: &HostFiles, dirs: &[String]) -> (Vec<Runtime>, AreaReport) {
    let mut runtimes = containerd::find(files);
    runtimes.extend(others::cri_o(files));
    runtimes.extend(others::docker(files));
    runtimes.extend(others::podman(files));
    let findings = runtimes
        .iter()
        .flat_map(|runtime| runtime.findings(dirs))
        .collect();
    let shown: Vec<String> = runtimes.iter().map(Runtime::shown).collect();
    let summary = match shown.as_slice() {
        [] => "none found".to_owned(),
        _ => shown.join(", "),
    };
    (runtimes, AreaReport::new(summary, findings))
}

/// The first two numbers of a version.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

// === impl Runtime ===

impl Runtime {
    /// The newest CDI version that it loads, if that is known.
    pub(super) fn newest(&self) -> Option<SpecVersion> {
        let version = self.version.as_deref()?;
        let target: RuntimeRelease = format!("{}-{version}", self.name).parse().ok()?;
        Some(target.newest())
    }

    /// How bad it is if it does not do what pods need.
    pub(super) fn severity(&self) -> Severity {
        if self.for_pods {
            Severity::Error
        } else {
            Severity::Info
        }
    }

    pub(super) fn shown(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.name),
            None => self.name.to_owned(),
        }
    }

    fn subject(&self) -> String {
        let config = self.config.as_deref();
        config.map_or_else(
            || self.shown(),
            |config| format!("{} ({config})", self.shown()),
        )
    }

    fn findings(&self, dirs: &[String]) -> Vec<Finding> {
        if let Some(fault) = &self.fault {
            let finding = Finding::new(
                self.severity(),
                "runtime-config-unreadable",
                self.subject(),
                fault.clone(),
                "correct the file, or run this as root; the runtime itself may not start with it",
            );
            return vec![finding.quoting()];
        }
        if let Some(finding) = self.without_cdi() {
            return vec![finding];
        }
        let mut findings = Vec::new();
        findings.extend(self.of_cdi());
        if self.cdi != Cdi::Off {
            findings.extend(self.of_dirs(dirs));
        }
        findings
    }

    /// A version of before there was CDI in it, whatever its configuration says.
    fn without_cdi(&self) -> Option<Finding> {
        let (first, version) = (self.first_with_cdi?, self.version.as_deref()?);
        (major_minor(version)? < first).then(|| {
            let (major, minor) = first;
            Finding::new(
                self.severity(),
                "runtime-without-cdi",
                self.subject(),
                format!("before {major}.{minor} it takes no CDI devices from kubelet: containers do not get the devices of their claims"),
                format!("update {} to {major}.{minor} or newer", self.name),
            )
        })
    }

    fn of_cdi(&self) -> Option<Finding> {
        let (severity, id, evidence) = match self.cdi {
            Cdi::On => return None,
            Cdi::Off => (
                self.severity(),
                "runtime-cdi-off",
                "CDI is off: containers do not get the devices of their claims",
            ),
            Cdi::Unknown => (
                Severity::Info,
                "runtime-cdi-unknown",
                "its configuration does not say whether CDI is on, and its version is not known",
            ),
        };
        let finding = Finding::new(severity, id, self.subject(), evidence, self.turn_on);
        Some(finding)
    }

    fn of_dirs(&self, dirs: &[String]) -> Option<Finding> {
        let own = self.spec_dirs.as_ref()?;
        let reads = |dir: &String| own.iter().any(|it| same(it, dir));
        let missing: Vec<&str> = dirs
            .iter()
            .filter(|dir| !reads(dir))
            .map(String::as_str)
            .collect();
        (!missing.is_empty()).then(|| {
            Finding::new(
                self.severity(),
                "runtime-spec-dirs",
                self.subject(),
                format!(
                    "it reads CDI specs only from [{}], not from {}",
                    own.join(", "),
                    missing.join(", ")
                ),
                format!(
                    "set cdi_spec_dirs to include {}, or remove the setting, and restart {}",
                    missing.join(" and "),
                    self.name
                ),
            )
        })
    }
}

/// `/var/run` is `/run`.
fn same(one: &str, other: &str) -> bool {
    let plain = |dir: &str| {
        let dir = dir.trim_end_matches('/');
        dir.strip_prefix("/var/run/")
            .map_or_else(|| dir.to_owned(), |rest| format!("/run/{rest}"))
    };
    plain(one) == plain(other)
}
