//! The fake runtime's options.

use std::time::Duration;

use crate::api::generated::ConfigureRequest;
use crate::api::{Container, ContainerAdjustment, PodSandbox};
use crate::events::Events;

/// Options of the fake runtime: its release, time-outs, pods and containers.
#[derive(Clone, Debug)]
pub struct Options {
    /// The runtime whose NRI it reproduces.
    pub release: Release,
    /// The plugin's configuration.
    pub config: String,
    /// Pods in the synchronization.
    pub pods: Vec<PodSandbox>,
    /// Containers in the synchronization.
    pub containers: Vec<Container>,
    /// How many pods, and how many containers, each message of the synchronization has.
    pub objects_per_message: usize,
    /// The time-out of each answer that the fake sends to the plugin.
    pub request_timeout: Duration,
    /// How much longer than `request_timeout` the fake waits while a plugin registers; real runtimes do not. For tests
    /// of a late plugin's answers, which would otherwise depend on which of two timers fires first.
    pub patience: Duration,
    /// IDs of containers for which [`Updates::update`](crate::Updates::update) fails.
    pub failing_updates: Vec<String>,
}

/// The runtime whose NRI the fake reproduces: its events, and its description of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// containerd 1.7.16 with NRI 0.6.1. It does not send its time-outs.
    Containerd1_7,
    /// containerd 2.1 with NRI 0.8.0.
    Containerd2_1,
    /// CRI-O 1.34.0 with NRI 0.9.1, a commit before 0.10 without validation. It starts a container even if the plugin
    /// refuses the start.
    CriO1_34,
    /// containerd 2.2.1 with NRI 0.11.0. It knows all events.
    Containerd2_2,
    /// containerd 2.3 with NRI 0.12.0. It sends its NRI version.
    #[default]
    Containerd2_3,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            release: Release::default(),
            config: String::new(),
            pods: Vec::new(),
            containers: Vec::new(),
            objects_per_message: usize::MAX,
            request_timeout: Duration::from_secs(2),
            patience: Duration::ZERO,
            failing_updates: Vec::new(),
        }
    }
}

impl Options {
    pub(super) fn configuration(&self) -> ConfigureRequest {
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let mut request = ConfigureRequest {
            config: self.config.clone(),
            runtime_name: self.release.runtime().into(),
            runtime_version: self.release.version().into(),
            ..Default::default()
        };
        if self.release.nri() >= 8 {
            request.registration_timeout = 5000;
            request.request_timeout = millis(self.request_timeout);
        }
        if self.release.nri() >= 12 {
            request.nri_version = "v0.12.0".into();
        }
        request
    }
}

// === impl Release ===

impl Release {
    const fn runtime(self) -> &'static str {
        match self {
            Self::CriO1_34 => "cri-o",
            _ => "containerd",
        }
    }

    const fn version(self) -> &'static str {
        match self {
            Self::CriO1_34 => "1.34.0",
            Self::Containerd1_7 => "v1.7.16",
            Self::Containerd2_1 => "v2.1.5",
            Self::Containerd2_2 => "v2.2.1",
            Self::Containerd2_3 => "v2.3.0",
        }
    }

    /// The minor version of its NRI: 0.x.
    const fn nri(self) -> u32 {
        match self {
            Self::Containerd1_7 => 6,
            Self::Containerd2_1 => 8,
            Self::CriO1_34 => 9,
            Self::Containerd2_2 => 11,
            Self::Containerd2_3 => 12,
        }
    }

    /// Fact: NRI does not register a plugin that subscribes to any other event.
    pub(super) const fn known_events(self) -> Events {
        if self.nri() < 10 {
            Events::SINCE_0_2
        } else {
            Events::SINCE_0_10
        }
    }

    /// Fact: NRI ignores the fields of an adjustment that its version does not know.
    pub(super) fn leave_out(self, adjustment: &mut ContainerAdjustment) {
        let nri = self.nri();
        if nri < 8 {
            adjustment.cdi_devices.clear();
        }
        if nri < 10 {
            adjustment.args.clear();
        }
        let Some(linux) = &mut adjustment.linux else {
            return;
        };
        if nri < 8 {
            linux.oom_score_adj = None;
        }
        if nri < 10 {
            linux.io_priority = None;
            linux.seccomp_policy = None;
            linux.namespaces.clear();
        }
        if nri < 11 {
            linux.sysctl.clear();
            linux.net_devices.clear();
            linux.scheduler = None;
            linux.rdt = None;
        }
        if nri < 12 {
            linux.memory_policy = None;
        }
    }

    /// Fact: before NRI 0.12, events with an empty answer share one call, `StateChange`.
    pub(super) const fn has_calls_for_each_event(self) -> bool {
        self.nri() >= 12
    }
}
