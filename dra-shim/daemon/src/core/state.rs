//! The published state of the daemon.

use compute_domain_api::driver_managed::{DaemonPhase, DaemonState, Place};

use crate::core::Core;
use crate::core::facts::{Answer, Fabric};
use crate::core::process::{Process, Up};

// === impl Core ===

impl Core {
    /// The state for the kubelet plugin, and why the pod is not ready.
    // req: DAEMON-8, DAEMON-10
    pub(crate) fn state(&self) -> (DaemonState, Option<String>) {
        let unready = self.unready();
        let is_draining = self.membership.as_ref().is_ok_and(|it| it.is_draining);
        let (phase, reason) = match (&unready, is_draining) {
            (_, true) => (
                DaemonPhase::Draining,
                "this node's IMEX daemon is about to be replaced".to_owned(),
            ),
            (Some(reason), false) => (self.phase_of(reason), reason.clone()),
            (None, false) => (DaemonPhase::Ready, String::new()),
        };
        let start_config = self.membership.as_ref().ok().map(|it| &it.start_config);
        let state = DaemonState {
            boot_id: self.boot_id.clone(),
            pod_uid: self.me.pod_uid.clone(),
            clique: self.clique().unwrap_or_default().to_owned(),
            index: start_config.map_or(-1, |start_config| i64::from(start_config.index)),
            place: self.place(),
            address: self.me.address.to_string(),
            phase,
            reason,
        };
        (state, unready)
    }

    /// The place with which `nvidia-imex` runs or last ran. The object may have changed since.
    fn place(&self) -> Option<Place> {
        let start_config = self.last_start_config.as_ref();
        let start_config = start_config
            .filter(|start_config| Some(start_config.clique.as_str()) == self.clique())?;
        Some(Place {
            index: start_config.index,
            length: start_config.length,
        })
    }

    fn phase_of(&self, unready: &str) -> DaemonPhase {
        match &self.process {
            Process::Down {
                why,
                driver_too_old: true,
                ..
            } if why == unready => DaemonPhase::DriverTooOld,
            _ => DaemonPhase::Starting,
        }
    }

    fn unready(&self) -> Option<String> {
        match &self.fabric {
            // There is nothing to run.
            Fabric::NoClique(_) => return None,
            Fabric::Unknown(reason) if self.plan.is_none() => {
                return Some(format!("the clique of this node is unknown: {reason}"));
            }
            Fabric::Unknown(_) | Fabric::Clique(_) => {}
        }
        if let Err(reason) = &self.membership {
            return Some(reason.clone());
        }
        match &self.process {
            Process::Down { .. } if self.names.failure.is_some() => self.names.failure.clone(),
            Process::Down { why, .. } => Some(why.clone()),
            Process::Ending { .. } => Some("nvidia-imex is restarting".to_owned()),
            Process::Up(up) => self.unready_of(up),
        }
    }

    fn unready_of(&self, up: &Up) -> Option<String> {
        let plan = self.plan.as_ref()?;
        if up.start_config != plan.start_config {
            return Some("nvidia-imex is restarting".to_owned());
        }
        if self.names.failure.is_some() {
            return self.names.failure.clone();
        }
        if self.names.written.as_ref().map(|it| &it.start_config) != Some(&plan.start_config) {
            return Some("the hosts file is being written".to_owned());
        }
        match &up.answer {
            None => Some("nvidia-imex has not responded yet".to_owned()),
            Some(Answer::Ready) => None,
            Some(Answer::NotReady(answer)) => Some(answer.clone()),
            Some(Answer::Unresponsive(elapsed)) => Some(format!(
                "nvidia-imex has not responded for {} s; the daemon does not restart it, because a restart would kill programs that import memory",
                elapsed.as_secs()
            )),
        }
    }
}
