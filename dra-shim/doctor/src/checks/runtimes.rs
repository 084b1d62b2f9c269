//! Checks that kubelet's runtime resolves CDI devices, from every spec directory.
//!
//! | id | when |
//! |---|---|
//! | `runtime-cri-disabled` | it does not serve CRI: its configuration disables the plugin |
//! | `runtime-not-answering` | nothing listens at kubelet's socket, or there is no answer |
//! | `runtime-config-unreadable` | it cannot be queried, and one of its files is not TOML |
//! | `runtime-without-cdi` | it has no CDI support for kubelet at all |
//! | `runtime-cdi-off` | CDI is off |
//! | `runtime-cdi-unknown` | not checked: it cannot be queried, and its files leave the setting to the release. Always an info, with the command that shows the setting |
//! | `runtime-spec-dirs` | its configuration omits a directory that contains specs |
//! | `runtime-handler-missing` | the program of its default handler does not exist |
//! | `runtime-not-judged` | a runtime that does not serve kubelet. Always an info, with the command that shows its configuration |
//!
//! Findings about CDI are errors if something on the node gives devices to kubelet by CDI,
//! else infos.

use crate::diagnosis::AreaReport;
use crate::facts::runtimes::RuntimeFacts;
use crate::facts::runtimes::model::{
    CdiSettings, CdiSupport, DefaultHandler, DisabledCri, Edit, KubeletRuntime, Runtime,
    RuntimeKind, Settings,
};
use crate::finding::{Finding, Severity};

/// `wants_cdi`: whether something gives devices to kubelet by CDI. `needed`: directories with
/// specs that containers need; omitting only others is no finding.
pub(super) fn check(facts: &RuntimeFacts, wants_cdi: bool, needed: &[&str]) -> AreaReport {
    let severity = if wants_cdi {
        Severity::Error
    } else {
        Severity::Info
    };
    let mut findings = Vec::new();
    match &facts.of_kubelet {
        Some(runtime) => findings.extend(check_kubelets(runtime, severity, facts, needed)),
        None if facts.has_kubelet => findings.extend(undecided(facts)),
        None => {}
    }
    // If kubelet's runtime is unknown, it may be one of them.
    let is_known = !facts.has_kubelet || facts.of_kubelet.is_some();
    let others = facts.others.iter();
    let others = others.filter(|it| is_known || !may_serve(it.kind));
    findings.extend(others.map(not_judged));
    let labels = facts.of_kubelet.iter().map(|it| it.runtime.label());
    let labels: Vec<String> = labels
        .chain(facts.others.iter().map(Runtime::label))
        .collect();
    let summary = match labels.as_slice() {
        [] => "none found".to_owned(),
        _ => labels.join(", "),
    };
    AreaReport::new(summary, findings)
}

fn check_kubelets(
    of_kubelet: &KubeletRuntime,
    severity: Severity,
    facts: &RuntimeFacts,
    needed: &[&str],
) -> Vec<Finding> {
    let subject = of_kubelet.runtime.subject();
    match &of_kubelet.settings {
        Settings::FromRuntime(settings) | Settings::ConfigFiles(settings) => {
            let cdi = check_cdi(of_kubelet, settings, severity);
            let handler = settings.default_handler.as_ref();
            let handler = handler.and_then(|it| check_handler(of_kubelet, it));
            let dirs = settings.spec_dirs.as_ref();
            let dirs = dirs.filter(|_| !settings.has_no_cdi());
            let dirs = dirs.and_then(|own| check_dirs(of_kubelet, own, severity, facts, needed));
            cdi.into_iter().chain(handler).chain(dirs).collect()
        }
        Settings::WithoutCri(disabled) => vec![without_cri(of_kubelet, disabled.as_ref())],
        Settings::NoAnswer(why) => vec![Finding::error(
            "runtime-not-answering",
            subject,
            format!(
                "the query at kubelet's socket {} failed: {why}",
                of_kubelet.socket
            ),
            "check that the runtime is running, and see its log: kubelet cannot start pods without the runtime",
        )],
        Settings::Malformed(why) => {
            let fix = format!(
                "correct the file: {} may fail to start with this file",
                of_kubelet.runtime.label()
            );
            let finding = Finding::error("runtime-config-unreadable", subject, why, fix);
            vec![finding.quoting()]
        }
    }
}

fn without_cri(of_kubelet: &KubeletRuntime, disabled: Option<&DisabledCri>) -> Finding {
    let socket = &of_kubelet.socket;
    let (evidence, fix) = match disabled {
        Some(DisabledCri { file, line, name }) => (
            format!(
                "disabled_plugins in line {line} of {file} contains {name:?}: kubelet cannot use the runtime at {socket}"
            ),
            format!("remove {name:?} from disabled_plugins in line {line} of {file}, and restart containerd"),
        ),
        None => (
            format!("the runtime at {socket} reports that it does not serve CRI: kubelet cannot use this runtime"),
            "remove the CRI plugin from the runtime's disabled_plugins, or set kubelet's --container-runtime-endpoint to the socket of another runtime".to_owned(),
        ),
    };
    let subject = of_kubelet.runtime.subject();
    Finding::error("runtime-cri-disabled", subject, evidence, fix).quoting()
}

fn check_cdi(
    of_kubelet: &KubeletRuntime,
    settings: &CdiSettings,
    severity: Severity,
) -> Option<Finding> {
    let runtime = &of_kubelet.runtime;
    let edit = of_kubelet.edit.as_ref();
    let misplaced = edit.and_then(|it| Some((it, it.misplaced.as_ref()?)));
    let (severity, id, evidence, fix) = match &settings.support {
        CdiSupport::On => return None,
        CdiSupport::Off => {
            let why = misplaced.map(|(_, it)| format!("; {}", it.why));
            let evidence = format!(
                "CDI is off: containers do not get the devices of their claims{}",
                why.unwrap_or_default()
            );
            let set = edit.map(|it| {
                if it.is_set {
                    restart(it)
                } else {
                    set(it, "enable_cdi = true")
                }
            });
            let fix =
                misplaced.map_or_else(|| set.unwrap_or_default(), |(edit, it)| put(edit, &it.fix));
            (severity, "runtime-cdi-off", evidence, fix)
        }
        CdiSupport::Absent => {
            let evidence = "this runtime does not support CDI devices from kubelet: containers do not get the devices of their claims";
            let fix = match runtime.kind {
                RuntimeKind::Containerd => "update containerd to 1.7 or newer",
                RuntimeKind::CriO => "update CRI-O to 1.28 or newer",
                _ => {
                    "switch kubelet to containerd or CRI-O: no release of cri-dockerd supports CDI"
                }
            };
            (
                severity,
                "runtime-without-cdi",
                evidence.to_owned(),
                fix.to_owned(),
            )
        }
        CdiSupport::Unknown(why) => {
            let evidence = format!("not checked: {why}");
            let query_command = query_command(of_kubelet);
            let ask = format!("run `cdi-gen doctor` as root on the host, or {query_command}");
            let fix = match (&of_kubelet.settings, misplaced) {
                (Settings::FromRuntime(_), _) => format!("see the output of {query_command}"),
                (_, Some((edit, it))) => format!("{}; {ask}", put(edit, &it.fix)),
                (_, None) => ask,
            };
            (Severity::Info, "runtime-cdi-unknown", evidence, fix)
        }
    };
    Some(Finding::new(severity, id, runtime.subject(), evidence, fix))
}

/// A runtime with configured directories reads no others. The finding has all that are omitted.
fn check_dirs(
    of_kubelet: &KubeletRuntime,
    own: &[String],
    severity: Severity,
    facts: &RuntimeFacts,
    needed: &[&str],
) -> Option<Finding> {
    let is_read = |dir: &str| own.iter().any(|it| is_same_dir(it, dir));
    let dirs = facts.spec_dirs.iter().map(String::as_str);
    let missing: Vec<&str> = dirs.filter(|dir| !is_read(dir)).collect();
    if !missing.iter().any(|dir| needed.contains(dir)) {
        return None;
    }
    let edit = of_kubelet.edit.as_ref()?;
    let change = format!(
        "cdi_spec_dirs to include {}, or remove the setting,",
        missing.join(" and ")
    );
    Some(Finding::new(
        severity,
        "runtime-spec-dirs",
        of_kubelet.runtime.subject(),
        match own {
            [] => {
                "the runtime reads no CDI specs: its list of spec directories is empty".to_owned()
            }
            _ => format!(
                "the runtime reads CDI specs only from [{}], not from {}",
                own.join(", "),
                missing.join(", ")
            ),
        },
        set(edit, &change),
    ))
}

/// Without the default handler, only containers that name another handler start.
fn check_handler(of_kubelet: &KubeletRuntime, handler: &DefaultHandler) -> Option<Finding> {
    let (name, program) = (&handler.name, &handler.program);
    (!handler.exists).then(|| {
        Finding::error(
            "runtime-handler-missing",
            of_kubelet.runtime.subject(),
            format!(
                "{program}, the program of the default runtime {name:?}, does not exist: containers do not start"
            ),
            format!(
                "reinstall the package that provides {program} (nvidia-container-runtime: NVIDIA's container toolkit), or configure another default runtime, such as runc{}",
                of_kubelet.edit.as_ref().map_or("", |it| &it.apply)
            ),
        )
    })
}

/// kubelet's options are not visible, and several runtimes may serve it.
fn undecided(facts: &RuntimeFacts) -> Option<Finding> {
    let others = facts.others.iter().filter(|it| may_serve(it.kind));
    let labels: Vec<String> = others.map(Runtime::label).collect();
    let evidence = format!(
        "not checked: kubelet's runtime is unknown and may be {}",
        labels.join(" or ")
    );
    let fix = "find the runtime's socket: `ps -o args= -C kubelet` on the host prints --container-runtime-endpoint, or --config with the path of a file that sets containerRuntimeEndpoint";
    let finding = Finding::info("runtime-cdi-unknown", "kubelet", evidence, fix);
    (!labels.is_empty()).then_some(finding)
}

/// Docker and podman by themselves cannot serve kubelet.
fn may_serve(kind: RuntimeKind) -> bool {
    !matches!(kind, RuntimeKind::Docker | RuntimeKind::Podman)
}

fn not_judged(runtime: &Runtime) -> Finding {
    let command = match runtime.kind {
        RuntimeKind::Containerd => match &runtime.config {
            Some(config) => format!("`containerd --config {config} config dump`"),
            None => "`containerd config dump`".to_owned(),
        },
        RuntimeKind::CriO => "`crio status config`".to_owned(),
        RuntimeKind::CriDockerd | RuntimeKind::Docker | RuntimeKind::Other => {
            "`docker info`".to_owned()
        }
        RuntimeKind::Podman => "`podman --help` (--cdi-spec-dir, if supported)".to_owned(),
    };
    Finding::info(
        "runtime-not-judged",
        runtime.subject(),
        "not checked, because kubelet does not use this runtime",
        format!("none needed; {command} shows the runtime's CDI spec directories"),
    )
}

/// The command that shows the settings on the host.
fn query_command(of_kubelet: &KubeletRuntime) -> String {
    match of_kubelet.runtime.kind {
        RuntimeKind::CriO => "`crio status config` (cdi_spec_dirs)".to_owned(),
        _ => format!(
            "`crictl --runtime-endpoint unix://{} info` (enableCDI, cdiSpecDirs)",
            of_kubelet.socket
        ),
    }
}

/// The file is right, but the runtime was started before the change.
fn restart(edit: &Edit) -> String {
    let apply = edit.apply.trim_start_matches([',', ';', ' ']);
    let apply = apply.trim_start_matches("and ");
    format!("{apply}: {} already has enable_cdi = true", edit.file)
}

/// `set CHANGE in [TABLE] of FILE, and restart containerd`.
fn set(edit: &Edit, change: &str) -> String {
    put(edit, &format!("set {change} in [{}]", edit.table))
}

fn put(edit: &Edit, what: &str) -> String {
    format!("{what} of {}{}{}", edit.file, edit.note, edit.apply)
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
