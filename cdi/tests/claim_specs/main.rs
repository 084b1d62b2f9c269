//! The files of claims: content, owner, what readers see, and what a crash leaves.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap or index outside a test function fails the test too"
)]

mod crashes;
mod files;
mod ownership;
mod prefixes;
mod readers;

use std::sync::Arc;

use durable_file::Dir;
use imex_cdi::{ChannelId, ClaimDevice, ClaimSpec, ClaimSpecs, ClaimUid, Kind, Major};

pub(crate) const UID: &str = "11111111-aaaa-4bbb-8ccc-000000000001";
pub(crate) const FILE: &str =
    "k8s.compute-domain.nvidia.com-claim_11111111-aaaa-4bbb-8ccc-000000000001.yaml";

/// What Go's driver writes for the same claim.
pub(crate) const GO: &[u8] = include_bytes!(
    "../fixtures/k8s.compute-domain.nvidia.com-claim_11111111-aaaa-4bbb-8ccc-000000000001.yaml"
);

/// From Linux's errno.h.
pub(crate) const EIO: i32 = 5;

/// The whole file for channel 0 of major 235.
pub(crate) const SPEC: &str = concat!(
    r#"{"cdiVersion":"0.5.0","kind":"k8s.compute-domain.nvidia.com/claim","#,
    r#""devices":[{"name":"11111111-aaaa-4bbb-8ccc-000000000001-channel-0","#,
    r#""containerEdits":{"deviceNodes":["#,
    r#"{"path":"/dev/nvidia-caps-imex-channels/channel0","#,
    r#""type":"c","major":235,"minor":0,"fileMode":438,"permissions":"rw"}]}}]}"#,
);

pub(crate) fn uid(text: &str) -> ClaimUid {
    ClaimUid::new(text).unwrap()
}

pub(crate) fn channel(id: u32, major: u32) -> ClaimSpec {
    ClaimSpec::imex_channel(ChannelId::new(id).unwrap(), Major::new(major).unwrap())
}

pub(crate) fn of_devices(devices: impl IntoIterator<Item = ClaimDevice>) -> ClaimSpec {
    ClaimSpec {
        devices: devices.into_iter().collect(),
        ..ClaimSpec::default()
    }
}

pub(crate) fn specs(dir: &(impl Dir + Clone + 'static)) -> ClaimSpecs {
    ClaimSpecs::new(Arc::new(dir.clone()), Kind::compute_domain_claim())
}

pub(crate) fn read(dir: &impl Dir, name: &str) -> Option<String> {
    dir.read(name)
        .unwrap()
        .map(|bytes| String::from_utf8(bytes).unwrap())
}
