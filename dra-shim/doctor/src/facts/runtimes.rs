//! The container runtimes of a host.
//!
//! ```text
//! processes, files ──► candidates ─┐
//!              └─────► endpoint   ─┴► kubelet: the one at kubelet's socket
//!                                       ├─ answer: what it says itself, by CRI
//!                                       ├─ written: else what its files say
//!                                       └─ distribution: where a setting belongs
//! ```
//!
//! How a runtime merges files, and what a release does by default, is not repeated here:
//! the runtime knows, and is asked. Where it cannot be, a setting counts as known only if
//! every file that may decide says the same.

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
    /// The one that serves kubelet; `None` on a host without kubelet, or if it is not known
    /// which of [`others`](Self::others) does.
    pub of_kubelet: Option<KubeletRuntime>,
    /// The others.
    pub others: Vec<Runtime>,
    /// The directories in which the specs are that runtimes have to read.
    pub spec_dirs: Vec<String>,
    /// Whether this host shows a kubelet: its process, or what it has written.
    pub has_kubelet: bool,
}

// === impl RuntimeFacts ===

impl RuntimeFacts {
    /// Asks the one that serves kubelet, at its socket below the host's root.
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
            others: others.chain(candidates::of_people(host)).collect(),
            spec_dirs,
            has_kubelet: kubelet.is_some(),
        }
    }
}
