//! The one device of this driver: how it is published, and its health.

use compute_domain_api::names::{
    self, DEVICE_ID_ATTRIBUTE, DEVICE_TYPE_ATTRIBUTE, DEVICE_TYPE_CHANNEL,
};
use compute_domain_node::Hardware;
use compute_domain_node::policy::{PrepareAnswer, Slice};
use dra_kubelet::{DesiredPool, DeviceHealth, Health};
use k8s_openapi::api::resource::v1::{Device, DeviceAttribute};
use nvml_clique::Fabric;

/// The one channel that is published: without isolation every workload shares
/// it. Prepare uses the id of the allocated device, whichever it is.
const PUBLISHED_CHANNEL: u32 = 0;

/// The hardware in one line: the same text for as long as nothing changes.
pub(crate) fn describe(hardware: &Hardware) -> String {
    let fabric = match &hardware.fabric {
        // Its own text counts seconds.
        Fabric::NoAnswer { .. } => "NVML does not answer".to_owned(),
        fabric => fabric.to_string(),
    };
    match hardware.check_major() {
        Ok(()) => fabric,
        Err(reason) => format!("{fabric}; {reason}"),
    }
}

/// What the node's slice should hold.
pub(crate) fn desired_slice(hardware: &Hardware) -> DesiredPool {
    match hardware.policy().slice {
        Slice::Unchanged => DesiredPool::Undecided,
        Slice::Channel => DesiredPool::Devices(vec![channel(PUBLISHED_CHANNEL)]),
        Slice::Empty => DesiredPool::Withdrawn,
    }
}

/// A channel with the attributes that the Go driver publishes.
fn channel(id: u32) -> Device {
    let kind = DeviceAttribute {
        string: Some(DEVICE_TYPE_CHANNEL.to_owned()),
        ..DeviceAttribute::default()
    };
    let number = DeviceAttribute {
        int: Some(i64::from(id)),
        ..DeviceAttribute::default()
    };
    Device {
        name: names::channel_device_name(id),
        attributes: Some(
            [
                (DEVICE_TYPE_ATTRIBUTE.to_owned(), kind),
                (DEVICE_ID_ATTRIBUTE.to_owned(), number),
            ]
            .into(),
        ),
        ..Device::default()
    }
}

/// The health of the published channel.
pub(crate) fn channel_health(pool: &str, hardware: &Hardware) -> DeviceHealth {
    let policy = hardware.policy();
    let (health, message) = match hardware.check_major() {
        Err(reason) => (Health::Unhealthy, reason),
        Ok(()) if policy.prepare == PrepareAnswer::Prepared => (Health::Healthy, String::new()),
        Ok(()) if policy.slice == Slice::Unchanged => (Health::Unknown, String::new()),
        Ok(()) => (Health::Unhealthy, describe(hardware)),
    };
    DeviceHealth {
        pool: pool.to_owned(),
        device: names::channel_device_name(PUBLISHED_CHANNEL),
        health,
        message,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nvml_clique::{NoLibrary, NodeFabricState, NvmlFailure, Pending};

    use super::*;

    fn mk_hardware(state: NodeFabricState, fabric: Fabric) -> Hardware {
        Hardware {
            state,
            fabric,
            major: imex_cdi::channel_major("Character devices:\n235 nvidia-caps-imex-channels\n")
                .map_err(|_| unreachable!()),
        }
    }

    fn no_library() -> Fabric {
        let reason = "not a library".to_owned();
        Fabric::NoLibrary(NoLibrary::Unloadable {
            path: "/libnvidia-ml.so.1".into(),
            reason,
        })
    }

    #[test]
    fn the_device_is_published_as_go_publishes_it() {
        let failing = Fabric::NvmlFailed(NvmlFailure::SymbolMissing { call: "nvmlInit" });
        let DesiredPool::Devices(devices) =
            desired_slice(&mk_hardware(NodeFabricState::NvmlFailed, failing))
        else {
            panic!("published")
        };
        assert_eq!(
            serde_json::to_value(&devices).unwrap(),
            serde_json::json!([{"name": "channel-0", "attributes": {"id": {"int": 0}, "type": {"string": "channel"}}}])
        );
    }

    #[test]
    fn before_the_first_read_the_slice_stays_as_it_is() {
        let hardware = mk_hardware(
            NodeFabricState::NotReadYet,
            Fabric::Pending(Pending::NotReadYet),
        );
        assert_eq!(desired_slice(&hardware), DesiredPool::Undecided);
    }

    #[test]
    fn without_a_driver_nothing_is_published_unless_it_was_there_before() {
        assert_eq!(
            desired_slice(&mk_hardware(NodeFabricState::NoLibrary, no_library())),
            DesiredPool::Withdrawn
        );
        assert!(matches!(
            desired_slice(&mk_hardware(NodeFabricState::LibraryLost, no_library())),
            DesiredPool::Devices(_)
        ));
    }

    #[test]
    fn a_hung_nvml_is_one_state_however_long_it_lasts() {
        let after = |seconds| {
            let waited = Duration::from_secs(seconds);
            let fabric = Fabric::NoAnswer { waited, call: None };
            mk_hardware(NodeFabricState::NoAnswer, fabric)
        };
        assert_eq!(describe(&after(10)), describe(&after(20)));
    }
}
