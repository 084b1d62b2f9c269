//! Whether each container runtime resolves CDI devices, from every spec
//! directory.
//!
//! | id | when |
//! |---|---|
//! | `runtime-cri-disabled` | its configuration turns off what kubelet talks to, and no other runtime serves kubelet; nothing else is reported then |
//! | `runtime-config-unreadable` | its configuration cannot be read; nothing else is reported then |
//! | `runtime-config-refused` | the runtime does not start with its configuration; nothing else is reported then |
//! | `runtime-without-cdi` | its version is from before CDI; nothing else is reported then |
//! | `runtime-cdi-off` | CDI is off, by configuration or by default |
//! | `runtime-cdi-unknown` | whether CDI is on depends on its version, which is not known; always an info |
//! | `runtime-spec-dirs` | its configuration leaves out a directory in which specs are |
//!
//! Errors for a runtime that kubelet uses, infos for another.

mod places;

use self::places::{in_vain, place, service};
use crate::area::AreaReport;
use crate::facts::runtimes::RuntimeFacts;
use crate::facts::runtimes::model::{CdiSupport, DisabledCri, Runtime, RuntimeKind};
use crate::finding::{Finding, Severity};

/// The first releases, major and minor, that take the devices of claims from
/// where kubelet puts them, the CRI field `CDIDevices`; before, CRI-O took them
/// from annotations.
const CONTAINERD_WITH_CDI: (u32, u32) = (1, 7);
/// See [`CONTAINERD_WITH_CDI`].
const CRIO_WITH_CDI: (u32, u32) = (1, 28);

const ENABLE_IN_DOCKER: &str =
    "set \"features\": {\"cdi\": true} in /etc/docker/daemon.json, and restart docker";

/// `needed`: the directories of which one has to be missed for a runtime to be told.
pub(super) fn check(facts: &RuntimeFacts, needed: &[&str]) -> AreaReport {
    let RuntimeFacts {
        runtimes,
        spec_dirs,
        has_kubelet,
    } = facts;
    let is_unserved = *has_kubelet && !runtimes.iter().any(|it| it.runs_pods);
    let check_runtime = |runtime| match check_cri(runtime).filter(|_| is_unserved) {
        Some(finding) => vec![finding],
        None => check_runtime(runtime, spec_dirs, needed),
    };
    let findings = runtimes.iter().flat_map(check_runtime).collect();
    let labels: Vec<String> = runtimes.iter().map(Runtime::label).collect();
    let summary = match labels.as_slice() {
        [] => "none found".to_owned(),
        _ => labels.join(", "),
    };
    AreaReport::new(summary, findings)
}

/// How bad it is if a runtime does not do what pods need.
pub(super) fn severity(runtime: &Runtime) -> Severity {
    if runtime.runs_pods {
        Severity::Error
    } else {
        Severity::Info
    }
}

/// Where there is no spec, and nobody who writes any, a runtime needs no CDI.
fn severity_of_no_cdi(runtime: &Runtime, needed: &[&str]) -> Severity {
    if needed.is_empty() {
        Severity::Info
    } else {
        severity(runtime)
    }
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

/// Nothing follows from a configuration that cannot be read, and for a version
/// without CDI no configuration helps.
fn check_runtime(runtime: &Runtime, spec_dirs: &[String], needed: &[&str]) -> Vec<Finding> {
    if let Some(error) = &runtime.config_error {
        let (id, fix) = if runtime.containerd.refuses {
            let fix = format!("correct that, and restart {}", service(runtime));
            ("runtime-config-refused", fix)
        } else {
            let fix =
                "correct the file, or run this as root; the runtime itself may not start with it";
            ("runtime-config-unreadable", fix.to_owned())
        };
        let evidence = if runtime.containerd.refuses {
            format!("it does not start: {error}")
        } else {
            error.clone()
        };
        let finding = Finding::new(severity(runtime), id, subject(runtime), evidence, fix);
        return vec![finding.quoting()];
    }
    if let Some(finding) = check_version(runtime, needed) {
        return vec![finding];
    }
    let mut findings = Vec::new();
    findings.extend(check_cdi(runtime, needed));
    if runtime.cdi != CdiSupport::Off {
        findings.extend(check_spec_dirs(runtime, spec_dirs, needed));
    }
    findings
}

/// With the file in which the fix is to be made, if it is known.
fn subject(runtime: &Runtime) -> String {
    match &runtime.config {
        Some(config) => format!("{} ({config})", runtime.label()),
        None => runtime.label(),
    }
}

/// A version from before CDI has none, however it is configured.
fn check_version(runtime: &Runtime, needed: &[&str]) -> Option<Finding> {
    let first = match runtime.kind {
        RuntimeKind::Containerd => CONTAINERD_WITH_CDI,
        RuntimeKind::CriO => CRIO_WITH_CDI,
        RuntimeKind::Docker | RuntimeKind::Podman => return None,
    };
    (runtime.major_minor()? < first).then(|| {
        let (major, minor) = first;
        Finding::new(
            severity_of_no_cdi(runtime, needed),
            "runtime-without-cdi",
            subject(runtime),
            format!("before {major}.{minor} it takes no CDI devices from kubelet: containers do not get the devices of their claims"),
            format!("update {} to {major}.{minor} or newer", runtime.kind.as_str()),
        )
    })
}

/// The default of a runtime depends on its version.
fn check_cdi(runtime: &Runtime, needed: &[&str]) -> Option<Finding> {
    let (severity, id, evidence) = match runtime.cdi {
        CdiSupport::On => return None,
        CdiSupport::Off => (
            severity_of_no_cdi(runtime, needed),
            "runtime-cdi-off",
            format!(
                "CDI is off: containers do not get the devices of their claims{}",
                in_vain(runtime)
            ),
        ),
        CdiSupport::Unknown => (
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
        RuntimeKind::Docker => ENABLE_IN_DOCKER.to_owned(),
        // CDI is always on in these.
        RuntimeKind::CriO | RuntimeKind::Podman => String::new(),
    };
    Some(Finding::new(severity, id, subject(runtime), evidence, fix))
}

/// A runtime that names directories reads no others. One that misses a needed one is
/// told all that it misses.
fn check_spec_dirs(runtime: &Runtime, spec_dirs: &[String], needed: &[&str]) -> Option<Finding> {
    let own = runtime.spec_dirs.as_ref()?;
    let is_read = |dir: &String| own.iter().any(|it| is_same_dir(it, dir));
    let missing: Vec<&str> = spec_dirs
        .iter()
        .filter(|dir| !is_read(dir))
        .map(String::as_str)
        .collect();
    missing.iter().any(|dir| needed.contains(dir)).then(|| {
        Finding::new(
            severity(runtime),
            "runtime-spec-dirs",
            subject(runtime),
            format!(
                "it reads CDI specs only from [{}], not from {}",
                own.join(", "),
                missing.join(", ")
            ),
            format!(
                "set cdi_spec_dirs to include {}, or remove the setting{}, and restart {}",
                missing.join(" and "),
                place(runtime),
                service(runtime)
            ),
        )
    })
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
mod tests {
    use super::*;
    use crate::facts::ContainerdFacts;

    fn containerd() -> Runtime {
        Runtime {
            kind: RuntimeKind::Containerd,
            version: Some("2.1.3".to_owned()),
            cdi: CdiSupport::On,
            spec_dirs: None,
            config: Some("/etc/containerd/config.toml".to_owned()),
            config_error: None,
            runs_pods: true,
            containerd: ContainerdFacts::default(),
        }
    }

    fn check_one(runtime: Runtime) -> Vec<(&'static str, Severity)> {
        let facts = RuntimeFacts {
            runtimes: vec![runtime],
            spec_dirs: vec!["/etc/cdi".to_owned(), "/var/run/cdi".to_owned()],
            has_kubelet: true,
        };
        let findings = check(&facts, &["/etc/cdi", "/var/run/cdi"])
            .findings
            .into_iter();
        findings.map(|it| (it.id, it.severity)).collect()
    }

    #[test]
    fn a_runtime_of_pods_without_cdi_is_an_error() {
        assert_eq!(check_one(containerd()), []);
        let off = Runtime {
            cdi: CdiSupport::Off,
            ..containerd()
        };
        assert_eq!(check_one(off), [("runtime-cdi-off", Severity::Error)]);
        let beside = Runtime {
            cdi: CdiSupport::Off,
            runs_pods: false,
            ..containerd()
        };
        assert_eq!(check_one(beside), [("runtime-cdi-off", Severity::Info)]);
        let unknown = Runtime {
            cdi: CdiSupport::Unknown,
            ..containerd()
        };
        assert_eq!(
            check_one(unknown),
            [("runtime-cdi-unknown", Severity::Info)]
        );
    }

    #[test]
    fn an_old_release_is_all_that_is_said_of_it() {
        let old = Runtime {
            version: Some("1.6.28".to_owned()),
            cdi: CdiSupport::Off,
            ..containerd()
        };
        assert_eq!(check_one(old), [("runtime-without-cdi", Severity::Error)]);
    }

    #[test]
    fn run_is_the_same_directory_as_var_run() {
        let dirs = |dirs: [&str; 2]| Runtime {
            spec_dirs: Some(dirs.map(str::to_owned).to_vec()),
            ..containerd()
        };
        assert_eq!(check_one(dirs(["/etc/cdi", "/run/cdi/"])), []);
        let elsewhere = check_one(dirs(["/etc/cdi", "/opt/cdi"]));
        assert_eq!(elsewhere, [("runtime-spec-dirs", Severity::Error)]);
    }
}
