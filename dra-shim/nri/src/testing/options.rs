//! Which runtime the fake is.

use std::time::Duration;

use crate::api::generated::ConfigureRequest;
use crate::api::{Container, ContainerAdjustment, PodSandbox};
use crate::events::Events;

/// Which runtime the fake is, and what runs on its node.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose NRI it has.
    pub release: Release,
    /// The plugin's configuration.
    pub config: String,
    /// Pods that the plugin is synchronized with.
    pub pods: Vec<PodSandbox>,
    /// Containers that the plugin is synchronized with.
    pub containers: Vec<Container>,
    /// How many pods, and how many containers, one message of the synchronization has.
    pub objects_per_message: usize,
    /// How long it says that it waits for each answer.
    pub request_timeout: Duration,
    /// How much longer than that it waits while a plugin registers; real runtimes: not at all. For tests of what a
    /// late plugin says, which else depend on which of two timers is first.
    pub patience: Duration,
    /// Ids of containers whose updates fail when [`Updates::update`](crate::Updates::update)
    /// asks for them.
    pub failing_updates: Vec<String>,
}

/// Whose NRI the fake has: which events it knows, and what it says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// containerd 1.7.16 with NRI 0.6.1. It does not say its time-outs.
    Containerd1_7,
    /// containerd 2.1 with NRI 0.8.0.
    Containerd2_1,
    /// CRI-O 1.34.0 with NRI 0.9.1, a commit before 0.10 without validation. It starts a container also when the
    /// plugin refuses that.
    CriO1_34,
    /// containerd 2.2.1 with NRI 0.11.0. It knows all events.
    Containerd2_2,
    /// containerd 2.3 with NRI 0.12.0. It says its NRI's version.
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

    /// The NRI that it has: 0.`this`.
    const fn nri(self) -> u32 {
        match self {
            Self::Containerd1_7 => 6,
            Self::Containerd2_1 => 8,
            Self::CriO1_34 => 9,
            Self::Containerd2_2 => 11,
            Self::Containerd2_3 => 12,
        }
    }

    /// Fact: a plugin that asks for another one is not registered.
    pub(super) const fn known_events(self) -> Events {
        if self.nri() < 10 {
            Events::SINCE_0_2
        } else {
            Events::SINCE_0_10
        }
    }

    /// Fact: an NRI ignores the fields of an adjustment that are newer than it.
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

    /// Fact: before NRI 0.12 events without an answer share one call, `StateChange`.
    pub(super) const fn has_calls_for_each_event(self) -> bool {
        self.nri() >= 12
    }
}
