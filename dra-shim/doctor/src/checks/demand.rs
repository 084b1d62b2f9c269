//! Whom the CDI specs of a host are for, which decides how bad it is if a runtime does
//! not give their devices.

use crate::facts::Facts;
use crate::facts::runtimes::RuntimeFacts;
use crate::facts::runtimes::model::{CdiSupport, Runtime, RuntimeKind};
use crate::facts::specs::{SpecFacts, SpecFileFacts};
use crate::finding::Severity;
use crate::runtime_release::RuntimeRelease;
use crate::spec_node::KUBELET_PLUGINS;
use crate::spec_paths::REFRESHED;

/// Who asks for devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// Pods, by claims or a device plugin: kubelet's runtime has to give the devices.
    Claims,
    /// Pods, and nothing that writes specs for them is known here.
    Pods,
    /// People, by Docker or podman: the host shows no kubelet.
    People,
}

/// Releases before this one lack containers/podman#12825 of January 2022: their library reads
/// JSON of CDI 0.2.0. NVIDIA's container toolkit asks for 4.1.
const PODMAN_WITH_CDI: (u32, u32) = (4, 0);

// === impl Demand ===

impl Demand {
    pub(super) fn new(facts: &Facts) -> Self {
        let root = &facts.claims.root;
        let is_claims = |file: &SpecFileFacts| {
            let spec = file.spec.as_ref().ok();
            spec.is_some_and(|spec| spec.kind().vendor().starts_with(KUBELET_PLUGINS))
        };
        if facts.claims.has_plugin() || facts.specs.files.iter().any(is_claims) {
            Self::Claims
        } else if root.exists || root.other.is_some() || facts.runtimes.has_kubelet {
            Self::Pods
        } else {
            Self::People
        }
    }

    /// How bad it is if the runtime gives no devices though it should.
    pub(super) fn severity(self, runtime: &Runtime) -> Severity {
        let is_used = match self {
            Self::Claims | Self::Pods => runtime.runs_pods,
            Self::People => is_for_people(runtime),
        };
        if is_used {
            Severity::Error
        } else {
            Severity::Info
        }
    }
}

/// What people start containers with. containerd's settings are those of its CRI plugin,
/// which only kubelet talks to.
pub(super) fn is_for_people(runtime: &Runtime) -> bool {
    matches!(runtime.kind, RuntimeKind::Docker | RuntimeKind::Podman)
}

/// Whether it is a podman that loads no spec of today.
pub(super) fn is_podman_before_cdi(runtime: &Runtime) -> bool {
    let is_before = |version| version < PODMAN_WITH_CDI;
    runtime.kind == RuntimeKind::Podman && runtime.major_minor().is_some_and(is_before)
}

fn gives_people_devices(runtime: &Runtime) -> bool {
    is_for_people(runtime) && runtime.cdi != CdiSupport::Off && !is_podman_before_cdi(runtime)
}

/// Whether people can ask something else for the devices of a spec than `runtime`.
pub(super) fn has_other_users(facts: &RuntimeFacts, runtime: &Runtime) -> bool {
    let works = |other: &&Runtime| {
        gives_people_devices(other) && other.kind != runtime.kind && other.config_error.is_none()
    };
    !facts.others.is_empty() || facts.runtimes.iter().any(|it| works(&it))
}

/// Whether people can ask anything for the devices of a spec.
pub(super) fn is_usable(facts: &RuntimeFacts, file: &SpecFileFacts) -> bool {
    let Ok(spec) = &file.spec else {
        return false;
    };
    let loads = |runtime: &&Runtime| {
        let newest = release(runtime).map(|release| release.newest());
        gives_people_devices(runtime) && newest.is_none_or(|newest| spec.version() <= newest)
    };
    !facts.others.is_empty() || facts.runtimes.iter().any(|it| loads(&it))
}

/// Specs that somebody has put on the host for containers: not one that no container gets,
/// nor the one that NVIDIA's toolkit writes on every host.
pub(super) fn wanted<'a>(
    specs: &'a SpecFacts,
    runtimes: &RuntimeFacts,
) -> impl Iterator<Item = &'a SpecFileFacts> {
    let has_refresh = runtimes.has_refresh;
    let is_refreshed = move |path: &str| has_refresh && REFRESHED.contains(&path);
    let files = specs.files.iter();
    files.filter(move |file| file.spec.is_ok() && !file.is_shadowed && !is_refreshed(&file.path))
}

/// `None` of a release that is not in the table of CDI versions.
pub(super) fn release(runtime: &Runtime) -> Option<RuntimeRelease> {
    let version = runtime.version.as_deref()?;
    let release = format!("{}-{version}", runtime.kind.as_str());
    release.parse().ok()
}
