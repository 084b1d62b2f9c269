//! Test objects: a node's two directories, and claims to prepare there.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use compute_domain_api::{Isolation, Sharing};
use dra_checkpoint::{BootId, ClaimRef, ClaimStatus, KubeletDevice};
use durable_file::{Dir as _, SimDir, Step};
use imex_cdi::{ChannelId, ClaimDevice, ClaimUid, ReadMajorError, channel_major};
use jiff::Timestamp;
use nvml_clique::{ClusterUuid, Fabric, Gpu, GpuFabricState, GpuRef, NodeFabricState};

use crate::end_prepare::EndPrepare;
use crate::prepare::AfterBegin;
use crate::{
    ChannelRequest, DomainState, Hardware, HolderPolicy, Moment, NodeClaims, PrepareError,
    PrepareInput, Prepared, StartError, StartReport,
};

/// The UID of the claims' domain.
pub(crate) const DOMAIN: &str = "c0ffee00-1234-4567-89ab-0123456789ab";

/// The two directories of a node, which survive processes, and its policy.
#[derive(Clone)]
pub(crate) struct Disks {
    pub(crate) checkpoint: SimDir,
    pub(crate) cdi: SimDir,
    pub(crate) holder_policy: HolderPolicy,
}

/// The Go driver's policy: no isolation, and one claim at a time.
pub(crate) const EXCLUSIVE: HolderPolicy = HolderPolicy {
    isolation: Isolation::None,
    sharing: Sharing::One,
};

impl Default for Disks {
    fn default() -> Self {
        Self {
            checkpoint: SimDir::default(),
            cdi: SimDir::default(),
            holder_policy: EXCLUSIVE,
        }
    }
}

impl Disks {
    pub(crate) fn start(&self) -> NodeClaims {
        self.try_start("boot-1").unwrap().0
    }

    pub(crate) fn try_start(&self, boot: &str) -> Result<(NodeClaims, StartReport), StartError> {
        let boot = BootId::new(boot).unwrap();
        NodeClaims::start(
            Arc::new(self.checkpoint.clone()),
            Arc::new(self.cdi.clone()),
            boot,
            mk_hardware().major.ok(),
            self.holder_policy,
        )
    }

    /// The same node with another policy from its next start on.
    pub(crate) fn with_holder_policy(self, isolation: Isolation, sharing: Sharing) -> Self {
        let holder_policy = HolderPolicy { isolation, sharing };
        Self {
            holder_policy,
            ..self
        }
    }

    pub(crate) fn after_kill(&self) -> Self {
        Self {
            checkpoint: self.checkpoint.after_kill(),
            cdi: self.cdi.after_kill(),
            holder_policy: self.holder_policy,
        }
    }

    pub(crate) fn has_crashed(&self) -> bool {
        self.checkpoint.has_crashed() || self.cdi.has_crashed()
    }

    /// Number of durable writes of the checkpoint: each ends with a rename.
    pub(crate) fn checkpoint_writes(&self) -> usize {
        let steps = self.checkpoint.steps();
        let renames = steps.iter().filter(|step| matches!(step, Step::Rename(..)));
        renames.count()
    }

    pub(crate) fn spec_of(&self, claim: &ClaimRef) -> Option<String> {
        let spec = self.cdi.read(&spec_file(claim)).unwrap();
        spec.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    /// Changes the spec like another process or a clean-up would.
    pub(crate) fn set_spec_of(&self, claim: &ClaimRef, content: Option<&str>) {
        let name = spec_file(claim);
        match content {
            Some(content) => drop(self.cdi.replace(&name, content.as_bytes(), 0o644).unwrap()),
            None => self.cdi.remove(&name).unwrap(),
        }
    }
}

fn spec_file(claim: &ClaimRef) -> String {
    format!("k8s.compute-domain.nvidia.com-claim_{}.yaml", claim.uid)
}

/// Like the plugin: answers if the claim is prepared, else prepares it.
pub(crate) fn prepare_in(
    node: &NodeClaims,
    claim: &ClaimRef,
    status: &ClaimStatus,
    hardware: &Hardware,
    now: Moment,
) -> Result<Prepared, PrepareError> {
    if let Some(prepared) = node.already_prepared(claim, hardware.major.as_ref().ok().copied())? {
        return Ok(prepared);
    }
    let request = ChannelRequest::from_status(status)?;
    prepare_input(
        node,
        PrepareInput {
            now,
            ..mk_input(claim, status, &request, hardware)
        },
    )
}

/// Only the second half.
pub(crate) fn prepare_input(
    node: &NodeClaims,
    input: PrepareInput<'_>,
) -> Result<Prepared, PrepareError> {
    node.prepare(&input)
}

/// The part of a Prepare under the first lock.
pub(crate) fn begin(node: &NodeClaims, input: PrepareInput<'_>) -> Result<(), PrepareError> {
    node.begin(&input).map(drop)
}

/// The part of a Prepare between its two locks.
pub(crate) fn write_spec(node: &NodeClaims, input: &PrepareInput<'_>) {
    let uid = ClaimUid::new(input.claim.uid.as_str()).unwrap();
    node.specs.ensure(&uid, &[device(node, input)]).unwrap();
}

/// The part of a Prepare under the second lock.
pub(crate) fn end(
    node: &NodeClaims,
    input: &PrepareInput<'_>,
) -> Result<Vec<KubeletDevice>, PrepareError> {
    let ending = EndPrepare {
        uid: ClaimUid::new(input.claim.uid.as_str()).unwrap(),
        status: input.status.clone(),
        request: input.request.clone(),
        channel: opened(node, input),
        major: Some(*input.hardware.major.as_ref().unwrap()),
        daemon: None,
        group: input
            .request
            .device_group(opened(node, input), vec!["id".to_owned()]),
    };
    node.end(AfterBegin::Continues(Box::new(ending)))
}

fn device(node: &NodeClaims, input: &PrepareInput<'_>) -> ClaimDevice {
    let major = input.hardware.major.as_ref().unwrap();
    ClaimDevice::imex_channel(opened(node, input), *major)
}

/// The channel that the claim opens.
fn opened(node: &NodeClaims, input: &PrepareInput<'_>) -> ChannelId {
    let namespace = &input.claim.namespace;
    let channel = node
        .holder_policy
        .channel(input.request, input.domain, namespace);
    channel.unwrap()
}

pub(crate) fn prepare(node: &NodeClaims, claim: &ClaimRef) -> Result<Prepared, PrepareError> {
    prepare_in(
        node,
        claim,
        &mk_status("pod-1", "channel-0"),
        &mk_hardware(),
        at(0),
    )
}

/// The input of a Prepare for an existing domain.
pub(crate) fn mk_input<'a>(
    claim: &'a ClaimRef,
    status: &'a ClaimStatus,
    request: &'a ChannelRequest,
    hardware: &'a Hardware,
) -> PrepareInput<'a> {
    PrepareInput {
        claim,
        status,
        request,
        domain: DomainState::Unassigned,
        node: "node-a",
        hardware,
        now: at(0),
    }
}

pub(crate) fn mk_claim(uid: &str) -> ClaimRef {
    ClaimRef {
        uid: uid.to_owned(),
        name: format!("{uid}-name"),
        namespace: "default".to_owned(),
    }
}

pub(crate) fn mk_status(pod: &str, device: &str) -> ClaimStatus {
    let text = format!(
        r#"{{"allocation":{{"devices":{{
            "results":[{{"request":"channel","driver":"compute-domain.nvidia.com","pool":"node-a","device":"{device}"}}],
            "config":[{{"source":"FromClaim","requests":["channel"],"opaque":{{"driver":"compute-domain.nvidia.com","parameters":
                {{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainChannelConfig","domainID":"{DOMAIN}","allocationMode":"Single"}}}}}}]
        }}}},"reservedFor":[{{"resource":"pods","name":"{pod}","uid":"{pod}"}}]}}"#
    );
    ClaimStatus::from_json(&text).unwrap()
}

/// The request of a claim from its domain's template, with the label.
pub(crate) fn mk_labelled_request(status: &ClaimStatus) -> Result<ChannelRequest, PrepareError> {
    let request = ChannelRequest::from_status(status)?;
    let label = request.domain.as_str().to_owned();
    Ok(request.with_label(Some(&label)))
}

pub(crate) fn mk_hardware_with(major: u32, fabric: Fabric) -> Hardware {
    let list = format!("Character devices:\n{major} nvidia-caps-imex-channels\n");
    let major = channel_major(&list).map_err(|source| ReadMajorError::Content {
        path: "/proc/devices".into(),
        source,
    });
    Hardware {
        state: NodeFabricState::default().next(fabric.event()),
        fabric,
        major,
        channel_count: Some(2048),
    }
}

/// A healthy node of one clique.
pub(crate) fn mk_hardware() -> Hardware {
    mk_hardware_with(235, Fabric::from_gpus(&[mk_gpu(0, mk_completed(7))]))
}

/// A node with working GPUs that belong to no multi-node fabric.
pub(crate) fn mk_hardware_without_clique() -> Hardware {
    mk_hardware_with(235, Fabric::from_gpus(&[mk_gpu(0, mk_completed(0))]))
}

pub(crate) fn mk_gpu(index: u32, fabric: GpuFabricState) -> Gpu {
    Gpu {
        id: GpuRef { index, uuid: None },
        name: None,
        fabric,
        health: None,
    }
}

/// Registered with a fabric; its UUID repeats this byte; 0 is no fabric.
pub(crate) fn mk_completed(cluster: u8) -> GpuFabricState {
    GpuFabricState::Completed {
        cluster: ClusterUuid([cluster; 16]),
        clique_id: 0,
    }
}

/// A moment at which both clocks agree.
pub(crate) fn at(second: u64) -> Moment {
    at_clocks(i64::try_from(second).unwrap(), second)
}

/// A moment at which the wall clock may have been set, also backwards.
pub(crate) fn at_clocks(wall: i64, steady: u64) -> Moment {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Moment {
        wall: Timestamp::from_second(1_700_000_000 + wall).unwrap(),
        steady: *START + Duration::from_secs(steady),
    }
}
