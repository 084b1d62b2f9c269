//! The container runtimes of a host.
//!
//! ```text
//! processes, files ──► candidates ─┐
//!              └─────► endpoint   ─┴► kubelet: the one at kubelet's socket
//!                                       ├─ answer: its settings, queried by CRI
//!                                       ├─ written: else the settings in its files
//!                                       └─ distribution: where a setting belongs
//! ```
//!
//! This crate does not repeat how a runtime merges its files, or a release's defaults: it
//! queries the runtime. If that is impossible, a setting is known only if all files that may
//! decide have the same value.

mod answer;
mod candidates;
mod distribution;
mod endpoint;
mod kubelet;
pub(crate) mod model;
mod written;

use self::model::{KubeletRuntime, Runtime};
use crate::host::Host;

/// The container runtimes of a host, and where it has its CDI specs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// The runtime that serves kubelet; `None` on a host without kubelet, or if it is unknown
    /// which of [`others`](Self::others) serves it.
    pub of_kubelet: Option<KubeletRuntime>,
    /// The other runtimes.
    pub others: Vec<Runtime>,
    /// The CDI directories that runtimes have to read.
    pub spec_dirs: Vec<String>,
    /// Whether this host has a kubelet: its process, or files that it has written.
    pub has_kubelet: bool,
}

// === impl RuntimeFacts ===

impl RuntimeFacts {
    /// Queries the runtime that serves kubelet, at its socket below the host's root.
    // req: DOCTOR-12
    pub(crate) fn read(host: &Host, spec_dirs: Vec<String>, kubelet_root: &str) -> Self {
        let kubelet = endpoint::find(host, kubelet_root);
        let mut candidates = candidates::find(host);
        let of_kubelet = kubelet
            .as_ref()
            .and_then(|it| it.runtime(host, &mut candidates));
        let others = candidates.into_iter().map(|it| it.runtime);
        Self {
            of_kubelet,
            others: others.chain(candidates::find_user_runtimes(host)).collect(),
            spec_dirs,
            has_kubelet: kubelet.is_some(),
        }
    }
}
