//! Whether each container runtime resolves CDI devices, from every spec
//! directory.
//!
//! | id | when |
//! |---|---|
//! | `runtime-cri-disabled` | its configuration turns off what kubelet talks to, and no other runtime serves kubelet; nothing else is reported then |
//! | `runtime-config-unreadable` | its configuration cannot be read; nothing else is reported then |
//! | `runtime-config-refused` | the runtime does not start with its configuration; nothing else is reported then |
//! | `runtime-without-cdi` | its version is from before CDI (podman's: if there are specs); nothing else is reported then |
//! | `runtime-cdi-off` | CDI is off, by configuration or by default |
//! | `runtime-cdi-unknown` | whether CDI is on depends on its version, which is not known; always an info |
//! | `runtime-spec-dirs` | its configuration leaves out a directory in which specs are |
//! | `runtime-handler-missing` | what it starts containers with by default does not exist, or is not defined |
//!
//! Errors for a runtime that kubelet uses, and infos for another. On a host without kubelet
//! people ask Docker and podman for devices: there those have errors, where nothing else
//! gives the devices, and Docker without CDI a warning, since it has other ways to GPUs.

mod handler;
mod places;

use self::handler::check_handler;
use self::places::{in_vain, place, service};
use imex_cdi::SpecVersion;

use super::demand::{Demand, has_other_users, is_for_people, is_podman_before_cdi, wanted};
use crate::area::AreaReport;
use crate::facts::runtimes::RuntimeFacts;
use crate::facts::runtimes::model::{CdiSupport, DisabledCri, Runtime, RuntimeKind};
use crate::facts::specs::SpecFacts;
use crate::finding::{Finding, Severity};

/// The first releases, major and minor, that take the devices of claims from
/// where kubelet puts them, the CRI field `CDIDevices`; before, CRI-O took them
/// from annotations.
const CONTAINERD_WITH_CDI: (u32, u32) = (1, 7);
/// See [`CONTAINERD_WITH_CDI`].
const CRIO_WITH_CDI: (u32, u32) = (1, 28);

/// What is needed of the runtimes, and by whom.
struct Needs<'a> {
    facts: &'a RuntimeFacts,
    specs: &'a SpecFacts,
    demand: Demand,
    /// The directories of which one has to be missed for a runtime to be told.
    dirs: &'a [&'a str],
}

/// `needed`: the directories of which one has to be missed for a runtime to be told.
pub(super) fn check(
    facts: &RuntimeFacts,
    specs: &SpecFacts,
    demand: Demand,
    needed: &[&str],
) -> AreaReport {
    let runtimes = &facts.runtimes;
    let needs = Needs {
        facts,
        specs,
        demand,
        dirs: needed,
    };
    let is_unserved = facts.has_kubelet && !runtimes.iter().any(|it| it.runs_pods);
    let check_runtime = |runtime| match check_cri(runtime).filter(|_| is_unserved) {
        Some(finding) => vec![finding],
        None => needs.check_runtime(runtime),
    };
    let findings = runtimes.iter().flat_map(check_runtime).collect();
    let labels: Vec<String> = runtimes.iter().map(Runtime::label).collect();
    let summary = match labels.as_slice() {
        [] => "none found".to_owned(),
        _ => labels.join(", "),
    };
    AreaReport::new(summary, findings)
}

/// kubelet finds nobody at its socket.
fn check_cri(runtime: &Runtime) -> Option<Finding> {
    let DisabledCri { file, line, name } = runtime.containerd.disabled.as_ref()?;
    let finding = Finding::error(
        "runtime-cri-disabled",
        format!("{} ({file})", runtime.label()),
        format!(
            "line {line} has {name:?} in disabled_plugins: kubelet, which has state on this host, cannot use it, and no other runtime of pods was found"
        ),
        format!(
            "remove {name:?} from disabled_plugins in line {line} of {file}, and restart {}",
            service(runtime)
        ),
    );
    Some(finding.quoting())
}

/// Nothing follows from its settings otherwise.
fn check_config(runtime: &Runtime, demand: Demand) -> Option<Finding> {
    let error = runtime.config_error.as_ref()?;
    let (id, evidence, fix) = if runtime.cannot_start && !is_for_people(runtime) {
        let fix = format!("correct that, and restart {}", service(runtime));
        let evidence = format!("it does not start: {error}");
        ("runtime-config-refused", evidence, fix)
    } else if runtime.cannot_start {
        let fix = "correct the file: the runtime does not start with it".to_owned();
        ("runtime-config-unreadable", error.clone(), fix)
    } else {
        let fix = "correct the file, or run this as root; the runtime itself may not start with it";
        ("runtime-config-unreadable", error.clone(), fix.to_owned())
    };
    let is_for_pods = runtime.runs_pods;
    let is_broken = demand == Demand::People && is_for_people(runtime) && runtime.cannot_start;
    let severity = if is_for_pods || is_broken {
        Severity::Error
    } else {
        Severity::Info
    };
    let finding = Finding::new(severity, id, runtime.subject(), evidence, fix);
    Some(finding.quoting())
}

/// How bad it is if claims do not get their devices.
fn for_claims(runtime: &Runtime, demand: Demand) -> Severity {
    match demand {
        Demand::Claims => demand.severity(runtime),
        Demand::Pods | Demand::People => Severity::Info,
    }
}

/// A version from before CDI has none, however it is configured.
fn check_version(runtime: &Runtime, demand: Demand) -> Option<Finding> {
    let first = match runtime.kind {
        RuntimeKind::Containerd => CONTAINERD_WITH_CDI,
        RuntimeKind::CriO => CRIO_WITH_CDI,
        RuntimeKind::Docker | RuntimeKind::Podman => return None,
    };
    (runtime.major_minor()? < first).then(|| {
        let (major, minor) = first;
        Finding::new(
            for_claims(runtime, demand),
            "runtime-without-cdi",
            runtime.subject(),
            format!("before {major}.{minor} it takes no CDI devices from kubelet: containers do not get the devices of their claims"),
            format!("update {} to {major}.{minor} or newer", runtime.kind.as_str()),
        )
    })
}

// === impl Needs ===

impl Needs<'_> {
    /// Nothing follows from a configuration that cannot be read, and for a version
    /// without CDI no configuration helps.
    fn check_runtime(&self, runtime: &Runtime) -> Vec<Finding> {
        if let Some(finding) = check_config(runtime, self.demand) {
            return vec![finding];
        }
        // Then it is Docker's: nobody asks it for devices.
        if runtime.containerd.disabled.is_some() {
            return vec![];
        }
        let mut findings = Vec::new();
        findings.extend(check_handler(runtime, self.demand));
        if let Some(finding) = check_version(runtime, self.demand) {
            findings.push(finding);
            return findings;
        }
        if is_podman_before_cdi(runtime) {
            findings.extend(self.podman_before_cdi(runtime));
            return findings;
        }
        findings.extend(self.check_cdi(runtime));
        if runtime.cdi != CdiSupport::Off {
            findings.extend(self.check_spec_dirs(runtime));
        }
        findings
    }

    /// Nobody misses CDI where there are no specs, or only such that it may load.
    fn podman_before_cdi(&self, runtime: &Runtime) -> Option<Finding> {
        let versions = wanted(self.specs, self.facts).filter_map(|file| file.spec.as_ref().ok());
        let newest = versions.map(|spec| spec.version()).max()?;
        if newest <= SpecVersion::V0_2_0 {
            return None;
        }
        let severity = match self.demand {
            Demand::People if !has_other_users(self.facts, runtime) => Severity::Error,
            _ => Severity::Info,
        };
        Some(Finding::new(
            severity,
            "runtime-without-cdi",
            runtime.subject(),
            format!(
                "it is from before today's CDI, and loads no spec of cdiVersion {newest}: `podman run --device` finds none of its devices"
            ),
            "update podman to 4.1 or newer",
        ))
    }

    /// The default of a runtime depends on its version.
    fn check_cdi(&self, runtime: &Runtime) -> Option<Finding> {
        let (severity, id, evidence) = match (runtime.cdi, runtime.kind) {
            (CdiSupport::On, _) => return None,
            (CdiSupport::Off, RuntimeKind::Docker) => (
                self.docker_without_cdi(runtime),
                "runtime-cdi-off",
                "CDI is off: `docker run --device` finds no device of a spec".to_owned(),
            ),
            (CdiSupport::Off, _) => (
                for_claims(runtime, self.demand),
                "runtime-cdi-off",
                format!(
                    "CDI is off: containers do not get the devices of their claims{}",
                    in_vain(runtime)
                ),
            ),
            (CdiSupport::Unknown, _) => (
                Severity::Info,
                "runtime-cdi-unknown",
                "its configuration does not say whether CDI is on, and its version is not known"
                    .to_owned(),
            ),
        };
        let fix = match runtime.kind {
            RuntimeKind::Containerd => format!(
                "set enable_cdi = true{}, and restart {}",
                place(runtime),
                service(runtime)
            ),
            RuntimeKind::Docker => enable_in_docker(runtime),
            // CDI is always on in these.
            RuntimeKind::CriO | RuntimeKind::Podman => String::new(),
        };
        Some(Finding::new(severity, id, runtime.subject(), evidence, fix))
    }

    /// `docker run --gpus` works without CDI, so that specs may be there for nobody.
    fn docker_without_cdi(&self, runtime: &Runtime) -> Severity {
        let is_missed = self.demand == Demand::People
            && !has_other_users(self.facts, runtime)
            && wanted(self.specs, self.facts).next().is_some();
        if is_missed {
            Severity::Warning
        } else {
            Severity::Info
        }
    }

    /// A runtime that names directories reads no others. One that misses a needed one is
    /// told all that it misses.
    fn check_spec_dirs(&self, runtime: &Runtime) -> Option<Finding> {
        let own = runtime.spec_dirs.as_ref()?;
        let is_read = |dir: &str| own.iter().any(|it| is_same_dir(it, dir));
        let dirs = self.facts.spec_dirs.iter().map(String::as_str);
        let missing: Vec<&str> = dirs.filter(|dir| !is_read(dir)).collect();
        if !missing.iter().any(|dir| self.dirs.contains(dir)) {
            return None;
        }
        // People may mean the specs that it reads.
        let reads_some = self.specs.files.iter().any(|file| {
            let dir = file.path.rsplit_once('/').map_or("", |(dir, _)| dir);
            is_read(dir)
        });
        let is_enough = reads_some || has_other_users(self.facts, runtime);
        let severity = match self.demand {
            Demand::People if is_enough => Severity::Info,
            demand => demand.severity(runtime),
        };
        let key = match runtime.kind {
            RuntimeKind::Docker => "\"cdi-spec-dirs\"",
            _ => "cdi_spec_dirs",
        };
        Some(Finding::new(
            severity,
            "runtime-spec-dirs",
            runtime.subject(),
            format!(
                "it reads CDI specs only from [{}], not from {}",
                own.join(", "),
                missing.join(", ")
            ),
            format!(
                "set {key} to include {}, or remove the setting{}, and restart {}",
                missing.join(" and "),
                place(runtime),
                service(runtime)
            ),
        ))
    }
}

fn enable_in_docker(runtime: &Runtime) -> String {
    let file = runtime.config.as_deref();
    let file = file.unwrap_or("/etc/docker/daemon.json");
    format!("set \"features\": {{\"cdi\": true}} in {file}, and restart docker")
}

/// `/var/run` is `/run`.
fn is_same_dir(one: &str, other: &str) -> bool {
    let plain = |dir: &str| {
        let dir = dir.trim_end_matches('/');
        dir.strip_prefix("/var/run/")
            .map_or_else(|| dir.to_owned(), |rest| format!("/run/{rest}"))
    };
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests;
