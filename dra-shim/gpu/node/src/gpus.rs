//! The devices of GPU claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use dra_checkpoint::{BootId, ClaimRecord, ClaimRef, ClaimStatus, KubeletDevice, StoreError, View};
use durable_file::Dir;
use gpu_api::names::DRIVER_NAME;
use gpu_api::{FeatureGates, Sharing, TimeSlice, recorded_devices};
use imex_cdi::{ClaimSpec, ClaimUid, DeviceName, Kind};
use node_claims::{ChangedHardware, Devices, Restored, StartError, StartReport, UnprepareError};

use crate::effects::{Effects, WantedEffects};
use crate::error::PrepareError;
use crate::group::{ConfigState, GpuGroup, HeldGpu, HeldMig, PreparedDevice};
use crate::host_gpus::{HostGpus, Identity};
use crate::request::{GpuRequest, RequestedDevice};
use crate::unit::Unit;

/// The claims of one node, with GPUs and MIG devices as their devices.
pub type NodeClaims = node_claims::NodeClaims<Gpus>;

/// Which claims may hold which GPUs of this node, and what their specs and records contain.
#[derive(Debug)]
pub struct Gpus {
    /// The name of this node, which is the name of its pool.
    pub node: String,
    /// Which settings claims may ask for.
    pub gates: FeatureGates,
    /// What claims change on GPUs.
    pub effects: Effects,
}

/// A claim's request, and the node's devices as the caller knows them.
#[derive(Debug)]
pub struct WantedGpus {
    /// The request.
    pub request: GpuRequest,
    /// The devices, or why they are not known now.
    pub host: Result<Arc<HostGpus>, PrepareError>,
}

/// The devices of an allowed claim.
#[derive(Debug)]
pub struct PlannedGpus {
    devices: Vec<Planned>,
    spec: ClaimSpec,
}

#[derive(Debug)]
struct Planned {
    requested: RequestedDevice,
    unit: Unit,
    identity: Identity,
}

// === impl Gpus ===

impl Gpus {
    /// Opens the node's claims: [`node_claims::NodeClaims::start`] for the specs of GPUs. `host` are the node's
    /// devices if known: without them, a missing spec is a failure in the report.
    ///
    /// # Errors
    /// [`StartError`]: retry later.
    pub fn start(
        self,
        checkpoint: Arc<dyn Dir>,
        cdi: Arc<dyn Dir>,
        boot: BootId,
        host: Option<&Arc<HostGpus>>,
    ) -> Result<(NodeClaims, StartReport), StartError> {
        NodeClaims::start(
            checkpoint,
            cdi,
            Kind::gpu_claim(),
            boot,
            self,
            &host.cloned(),
        )
    }

    /// Reads the claim's request.
    ///
    /// # Errors
    /// As [`GpuRequest::from_status`].
    pub fn request(&self, status: &ClaimStatus) -> Result<GpuRequest, PrepareError> {
        GpuRequest::from_status(status, &self.gates, &self.node)
    }
}

impl Devices for Gpus {
    type Group = GpuGroup;
    type Facts = Option<Arc<HostGpus>>;
    type Request = WantedGpus;
    type Plan = PlannedGpus;
    type Error = PrepareError;

    // req: GPU-36
    fn plan(
        &self,
        view: &View<GpuGroup>,
        claim: &ClaimUid,
        wanted: WantedGpus,
    ) -> Result<PlannedGpus, PrepareError> {
        let host = wanted.host?;
        let mut given = Vec::new();
        let mut devices = Vec::new();
        for requested in wanted.request.devices {
            let device = host.require(&requested.name)?;
            given.push((requested.name.clone(), device));
            devices.push(Planned {
                unit: device.unit.clone(),
                identity: device.identity.clone(),
                requested,
            });
        }
        // First: a container may be using what another claim holds, whatever else is wrong.
        check(view, claim.as_str(), &devices)?;
        let spec = host.claim_spec(given.iter().map(|(name, device)| (name.as_str(), *device)))?;
        Ok(PlannedGpus { devices, spec })
    }

    fn check(
        &self,
        view: &View<GpuGroup>,
        claim: &ClaimUid,
        plan: &PlannedGpus,
    ) -> Result<(), PrepareError> {
        check(view, claim.as_str(), &plan.devices)
    }

    fn spec(&self, plan: &PlannedGpus) -> Option<ClaimSpec> {
        Some(plan.spec.clone())
    }

    fn groups(&self, plan: &PlannedGpus, ids: Vec<String>) -> Vec<GpuGroup> {
        // A device that is there twice has one id.
        let names = plan.spec.devices.iter().map(|device| device.name.as_str());
        let ids: Vec<_> = names.zip(ids).collect();
        let id_of = |name: &str| {
            let id = ids.iter().find(|(it, _)| *it == name);
            id.map(|(_, id)| id.clone()).unwrap_or_default()
        };
        let devices = plan.devices.iter();
        grouped(devices.map(|it| {
            let device = it.requested.for_kubelet(id_of(&it.requested.name));
            (recorded(&it.identity, device), it.requested.time_slice())
        }))
    }

    fn kubelet_devices(group: &GpuGroup) -> impl Iterator<Item = &KubeletDevice> {
        let devices = group.devices.iter();
        devices.filter_map(PreparedDevice::kubelet_device)
    }

    /// Not of VFIO devices and MPS, whose specs the Go driver writes.
    fn has_own_spec(record: &ClaimRecord<GpuGroup>) -> bool {
        let mut groups = record.devices().iter();
        !record.devices().is_empty()
            && groups.all(|group| {
                let mut devices = group.devices.iter();
                group.config_state.mps_daemon.is_empty()
                    && devices.all(|device| device.vfio.is_none())
            })
    }

    fn recorded_spec(
        &self,
        record: &ClaimRecord<GpuGroup>,
        host: &Option<Arc<HostGpus>>,
    ) -> Result<Option<ClaimSpec>, PrepareError> {
        if !Self::has_own_spec(record) {
            return Err(node_claims::PrepareError::ForeignSpecLost.into());
        }
        let host = host.as_ref().ok_or_else(|| PrepareError::NotKnown {
            reason: "the claim's CDI spec is missing and cannot be written".to_owned(),
        })?;
        let devices = record.devices().iter().flat_map(|group| &group.devices);
        let devices = devices.filter_map(|held| Some((held, held.kubelet_device()?)));
        let given = devices.map(|(held, device)| {
            let name = device.device_name.as_str();
            let given = uuid_of(held).and_then(|uuid| host.by_uuid(uuid));
            let given = given.ok_or_else(|| PrepareError::NoSuchDevice {
                device: name.to_owned(),
                reason: "the claim's CDI spec is missing and cannot be written".to_owned(),
            });
            Ok((name, given?))
        });
        let given = given.collect::<Result<Vec<_>, PrepareError>>()?;
        host.claim_spec(given.into_iter()).map(Some)
    }

    /// The hardware is that of the names in the claim's allocation, if the node has it.
    // req: GPU-35, GPU-57
    fn restored(
        &self,
        status: &ClaimStatus,
        host: &Option<Arc<HostGpus>>,
        _found: &BTreeSet<DeviceName>,
        id: &dyn Fn(&DeviceName) -> String,
    ) -> Restored<GpuGroup> {
        let Ok(request) = self.request(status) else {
            return Restored::Foreign;
        };
        let Some(host) = host else {
            return Restored::NotYet("the GPUs of this node are not known".to_owned());
        };
        let mut devices = Vec::new();
        for requested in request.devices {
            let given = match host.require(&requested.name) {
                Ok(given) => given,
                Err(error) => return Restored::NotYet(error.to_string()),
            };
            let Ok(name) = DeviceName::new(requested.name.as_str()) else {
                return Restored::Foreign;
            };
            let time_slice = requested.time_slice();
            let device = recorded(&given.identity, requested.for_kubelet(id(&name)));
            devices.push((device, time_slice));
        }
        Restored::Devices(grouped(devices.into_iter()))
    }

    fn change(
        &self,
        view: &dyn Fn() -> Result<Arc<View<GpuGroup>>, StoreError>,
        claim: &ClaimRef,
        plan: &PlannedGpus,
    ) -> Result<Option<ChangedHardware<GpuGroup>>, PrepareError> {
        let allowed = || {
            let view = view().map_err(node_claims::PrepareError::from)?;
            check(&view, &claim.uid, &plan.devices)?;
            Ok::<_, PrepareError>(view)
        };
        let changed = self.effects.change(claim, &plan.effects(), allowed)?;
        Ok(changed.map(|it| Box::new(it) as _))
    }

    fn changed(
        &self,
        view: &View<GpuGroup>,
        uid: &str,
    ) -> Result<Option<ChangedHardware<GpuGroup>>, UnprepareError> {
        let changed = self.effects.changed(view, uid)?;
        Ok(changed.map(|it| Box::new(it) as _))
    }

    fn changed_claims(&self) -> Vec<ClaimRef> {
        self.effects.claims()
    }
}

impl PlannedGpus {
    /// Not of claims with `adminAccess`: others may be using these GPUs.
    fn effects(&self) -> WantedEffects {
        let mut wanted = WantedEffects::default();
        let devices = self.devices.iter();
        for device in devices.filter(|it| !it.requested.admin_access) {
            let Unit::Gpu { uuid } = &device.unit else {
                continue;
            };
            wanted.gpus.insert(uuid.clone());
            if let Some(time_slice) = device.requested.time_slice() {
                wanted.time_slices.insert(uuid.clone(), time_slice);
            }
        }
        wanted
    }
}

/// The number of devices that Completed records hold, by the Go driver's types.
pub fn prepared(view: &View<GpuGroup>) -> Vec<(&'static str, usize)> {
    ["gpu", "mig", "vfio", "unknown"]
        .into_iter()
        .map(|device_type| {
            let records = view.records_unchecked();
            let groups = records.flat_map(|(_, record)| record.devices());
            let devices = groups.flat_map(|group| &group.devices);
            let of_type = devices.filter(|device| device.device_type() == device_type);
            (device_type, of_type.count())
        })
        .collect()
}

/// A GPU or MIG device of a prepared claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldDevice {
    /// The claim.
    pub claim: ClaimRef,
    /// The UUID, `GPU-…` or `MIG-…`.
    pub uuid: String,
    /// The UUID of its GPU, or its own.
    pub gpu: String,
    /// The name under which the claim was allocated it.
    pub name: String,
}

/// The GPUs and MIG devices of Completed records.
pub fn held_devices(view: &View<GpuGroup>) -> Vec<HeldDevice> {
    let mut found = Vec::new();
    for (uid, record) in view.records_unchecked() {
        let devices = record.devices().iter().flat_map(|group| &group.devices);
        for held in devices {
            if let (Some(uuid), Some(device)) = (uuid_of(held), held.kubelet_device()) {
                found.push(HeldDevice {
                    claim: record.claim_ref(uid),
                    uuid: uuid.to_owned(),
                    gpu: held
                        .mig
                        .as_ref()
                        .map_or(uuid, |it| &it.concrete.parent_uuid)
                        .to_owned(),
                    name: device.device_name.clone(),
                });
            }
        }
    }
    found
}

/// Fails if another claim has a part of the hardware, unless both have a share of the same device with the same
/// settings. Claims with `adminAccess` do not count.
// req: GPU-32, GPU-34, GPU-53
fn check(view: &View<GpuGroup>, claim: &str, wanted: &[Planned]) -> Result<(), PrepareError> {
    let records = view
        .records()
        .map_err(|_| node_claims::PrepareError::NeedsRecovery)?;
    let wanted: Vec<_> = wanted
        .iter()
        .filter(|it| !it.requested.admin_access)
        .collect();
    let others = records.filter(|(other, _)| *other != claim);
    for (other, record) in others {
        for (held, name) in held_units(record) {
            for wanted in wanted.iter().filter(|it| it.unit.overlaps(&held)) {
                let holder = || record.claim_ref(other);
                check_share(
                    &wanted.requested,
                    wanted.unit == held,
                    (record, name),
                    holder,
                )?;
            }
        }
    }
    Ok(())
}

/// Decides about a device of which another claim has a part. `is_same`: not a GPU and one of its MIG devices.
fn check_share(
    wanted: &RequestedDevice,
    is_same: bool,
    (record, held_as): (&ClaimRecord<GpuGroup>, &str),
    holder: impl Fn() -> ClaimRef,
) -> Result<(), PrepareError> {
    let is_shared = is_same && wanted.share_id.is_some() && has_share(record, held_as);
    if !is_shared {
        return Err(PrepareError::InUse {
            device: wanted.name.clone(),
            holder: holder(),
            held_as: held_as.to_owned(),
        });
    }
    let held = recorded_sharing(record, held_as);
    let is_equal =
        |held: &Option<Sharing>| Sharing::are_equal(held.as_ref(), wanted.sharing.as_ref());
    if held.as_ref().is_ok_and(is_equal) {
        return Ok(());
    }
    Err(PrepareError::OtherSettings {
        device: wanted.name.clone(),
        holder: Box::new(holder()),
        held: held.map_or_else(
            |error| format!("unknown ({error})"),
            |held| settings(held.as_ref()),
        ),
        wanted: settings(wanted.sharing.as_ref()),
    })
}

/// Whether the record's device of this name is a share. The Go driver writes share ids only into the status.
fn has_share(record: &ClaimRecord<GpuGroup>, device: &str) -> bool {
    let mut results = record.status.results_of(DRIVER_NAME);
    results.any(|it| it.device() == device && it.share_id().is_some() && !it.admin_access())
}

/// The settings of the record's device of this name.
///
/// # Errors
/// Its configs cannot be decoded: another version accepted them.
// req: GPU-54
fn recorded_sharing(
    record: &ClaimRecord<GpuGroup>,
    device: &str,
) -> Result<Option<Sharing>, gpu_api::ConfigError> {
    let devices = recorded_devices(&record.status)?;
    let held = devices
        .into_iter()
        .find(|it| it.result.device() == device && !it.result.admin_access());
    Ok(held.and_then(|it| it.sharing))
}

fn settings(sharing: Option<&Sharing>) -> String {
    sharing.map_or_else(|| "none".to_owned(), Sharing::to_string)
}

/// The hardware that the record holds, with the names of the devices: none unless it is Completed.
fn held_units(record: &ClaimRecord<GpuGroup>) -> impl Iterator<Item = (Unit, &str)> {
    let devices = record.devices().iter().flat_map(|group| &group.devices);
    devices.filter_map(|held| {
        let name = held.kubelet_device().map(|it| it.device_name.as_str());
        let name = name.unwrap_or_default();
        let is_admins = |name: &str| {
            let mut results = record.status.results_of(DRIVER_NAME);
            results.any(|result| result.device() == name)
                && record
                    .status
                    .results_of(DRIVER_NAME)
                    .filter(|result| result.device() == name)
                    .all(dra_claim::DeviceResult::admin_access)
        };
        (!is_admins(name)).then_some((held.unit()?, name))
    })
}

fn uuid_of(held: &PreparedDevice) -> Option<&str> {
    let gpu = held.gpu.as_ref().map(|it| it.info.uuid.as_str());
    gpu.or_else(|| Some(held.mig.as_ref()?.concrete.mig_uuid.as_str()))
}

fn recorded(identity: &Identity, device: KubeletDevice) -> PreparedDevice {
    match identity.clone() {
        Identity::Gpu(info) => PreparedDevice {
            gpu: Some(HeldGpu {
                info,
                device: Some(device),
            }),
            ..PreparedDevice::default()
        },
        Identity::Mig(concrete) => PreparedDevice {
            mig: Some(HeldMig {
                concrete,
                device: Some(device),
            }),
            ..PreparedDevice::default()
        },
    }
}

/// One group for each type of device and time slice: the Go driver has one for each config, and its default configs
/// are one for each type.
fn grouped(devices: impl Iterator<Item = (PreparedDevice, Option<TimeSlice>)>) -> Vec<GpuGroup> {
    let mut groups: Vec<(_, GpuGroup)> = Vec::new();
    for (device, time_slice) in devices {
        let key = (device.gpu.is_none(), time_slice);
        match groups.iter_mut().find(|(it, _)| *it == key) {
            Some((_, group)) => group.devices.push(device),
            None => groups.push((
                key,
                GpuGroup {
                    devices: vec![device],
                    config_state: ConfigState {
                        time_slice_applied: time_slice.map(|_| true),
                        ..ConfigState::default()
                    },
                },
            )),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
#[path = "gpus_tests.rs"]
mod tests;
