//! A container that a plugin of NRI adjusts before it is created.
//!
//! The adjustment has everything that the protocol has a field for. Its effect depends on the
//! runtime's release, and so does each [`Loss`]. Facts about the runtimes are from
//! `pkg/adaptation/result.go` and `pkg/runtime-tools/generate/generate.go` of NRI 0.6.1 to 0.12.5.

mod access;
mod loss;
mod release;

use std::mem;

use nri_plugin::api::{
    Container, ContainerAdjustment, Hook as NriHook, Hooks, KeyValue, LinuxDevice, LinuxNetDevice,
    LinuxRdt, Mount as NriMount, OptionalBool, OptionalFileMode, OptionalInt,
    OptionalRepeatedString, OptionalString, OptionalUInt32,
};

use crate::oci_config::lists;
use crate::{
    Change, ConfigError, ContainerFacts, DeviceRule, DeviceType, Hook, IntelRdt, Mount, NetDevice,
    OciConfig, PlannedDevice,
};

pub use self::loss::{Loss, LossReason};
pub use self::release::NriRelease;

/// Feature `nri`. A container of `CreateContainer`, as a config that a plan is made for and
/// applied to; [`into_adjustment`](Self::into_adjustment) is the plugin's answer.
///
/// Where two edits of a plan set one variable, path or target, the adjustment has the last
/// one only: NRI would refuse the second.
///
/// NRI itself sorts mounts of one depth by name, merges Intel RDT with the container's own
/// instead of replacing it, and requires that the host's mount is shared for a mount with
/// `rshared` or `rslave`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use imex_cdi::{NriContainer, NriRelease, OsHost, Plan, Registry};
/// use nri_plugin::api::Container;
///
/// # let scratch = tempfile::tempdir()?;
/// # let dir = scratch.path().to_owned();
/// # std::fs::write(dir.join("claim.json"), r#"{"cdiVersion":"0.3.0","kind":"example.com/claim",
/// #     "devices":[{"name":"channel-0","containerEdits":{"deviceNodes":[{"permissions":"r",
/// #     "path":"/dev/nvidia-caps-imex-channels/channel0","type":"c","major":235,"minor":0,"fileMode":438}]}}]}"#)?;
/// let registry = Registry::load(&[&dir]); // usually &imex_cdi::DEFAULT_DIRS
/// let names = ["example.com/claim=channel-0".parse()?];
///
/// // As in the plugin's `create_container`; the release as in `configure`, from
/// // `NriRelease::of(runtime)`.
/// let container = Container::default();
/// let release = NriRelease::Nri0_11;
///
/// let mut target = NriContainer::new(&container);
/// let plan = Plan::new(&registry, &names, &target, &OsHost::new("/"))?;
/// plan.apply(&mut target);
/// let answer = target.into_adjustment(release);
///
/// assert_eq!(answer.adjustment.linux.unwrap().devices[0].major, 235);
/// // This spec allows only `r`.
/// assert_eq!(answer.losses[0].to_string(), "allow c 235:0 r: NRI allows rw");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct NriContainer<'a> {
    container: &'a Container,
    adjustment: ContainerAdjustment,
    rules: Vec<DeviceRule>,
    net_devices: Vec<NetDevice>,
    rdt: Option<IntelRdt>,
    /// Changes that no release can express.
    lost: Vec<Loss>,
}

/// A plugin's answer, and the changes missing in it.
#[derive(Debug, Clone, PartialEq)]
pub struct NriAdjustment {
    /// The plan, as far as NRI can express it.
    pub adjustment: ContainerAdjustment,
    /// What the container gets more or less than planned. Empty for IMEX channels as this
    /// crate makes them, on every release.
    pub losses: Vec<Loss>,
}

// === impl NriContainer ===

impl<'a> NriContainer<'a> {
    /// A container without adjustments.
    pub fn new(container: &'a Container) -> Self {
        Self {
            container,
            adjustment: ContainerAdjustment::default(),
            rules: Vec::new(),
            net_devices: Vec::new(),
            rdt: None,
            lost: Vec::new(),
        }
    }

    /// The adjustment for a runtime of this release. Only the losses depend on it: an older runtime
    /// ignores unknown fields.
    // req: NRI-10
    pub fn into_adjustment(mut self, release: NriRelease) -> NriAdjustment {
        self.report_lost_owners();
        access::grant(&mut self.adjustment, &self.rules, release, &mut self.lost);
        self.report_lost_fields(release);
        NriAdjustment {
            adjustment: self.adjustment,
            losses: self.lost,
        }
    }

    /// A node without an owner in its spec gets the process's user, which runtimes report only
    /// since NRI 0.11. That does not matter for nodes that every user may open.
    fn report_lost_owners(&mut self) {
        if self.container.user.is_some() {
            return;
        }
        let devices = self
            .adjustment
            .linux
            .iter()
            .flat_map(|linux| &linux.devices);
        let closed = devices.filter(|device| {
            let mode = device.file_mode.map_or(OPEN_TO_ALL, |mode| mode.value);
            (device.uid.is_none() || device.gid.is_none()) && mode & OPEN_TO_ALL != OPEN_TO_ALL
        });
        let lost = closed.filter_map(|device| {
            Some(Loss {
                change: Change::SetDevice(planned(device)?),
                reason: LossReason::UnknownUser,
            })
        });
        let lost: Vec<Loss> = lost.collect();
        self.lost.extend(lost);
    }

    /// Network devices and Intel RDT.
    fn report_lost_fields(&mut self, release: NriRelease) {
        let rdt = self.rdt.take();
        if release >= NriRelease::Nri0_11 {
            let unexpressed = rdt.and_then(unexpressed).into_iter();
            return unexpressed.for_each(|change| self.lose(change, LossReason::NoField));
        }
        let net_devices = mem::take(&mut self.net_devices).into_iter();
        let fields = net_devices.map(Change::SetNetDevice);
        for change in fields.chain(rdt.map(Change::SetIntelRdt)) {
            self.lose(change, LossReason::Release(NriRelease::Nri0_11));
        }
    }

    fn lose(&mut self, change: Change, reason: LossReason) {
        self.lost.push(Loss { change, reason });
    }
}

/// Permission bits for other users: read and write.
const OPEN_TO_ALL: u32 = 0o006;

/// Requests a removal if a name begins with it.
const REMOVAL: char = '-';

impl OciConfig for NriContainer<'_> {
    /// Never an error: the type guarantees the structure. The user is 0 if the runtime does not
    /// report it.
    fn facts(&self) -> Result<ContainerFacts, ConfigError> {
        let user = self.container.user.as_ref();
        Ok(
            user.map_or_else(ContainerFacts::default, |user| ContainerFacts {
                uid: user.uid,
                gid: user.gid,
            }),
        )
    }

    fn set_env(&mut self, assignments: &[&str]) {
        let mut items = Vec::new();
        for assignment in assignments {
            if assignment.starts_with(REMOVAL) {
                self.lose(
                    Change::SetEnv((*assignment).to_owned()),
                    LossReason::Removal,
                );
                continue;
            }
            let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
            items.push(KeyValue {
                key: name.to_owned(),
                value: value.to_owned(),
            });
        }
        let list = &mut self.adjustment.env;
        lists::set_env(list, |item| Some(&item.key), items.into_iter());
    }

    fn set_devices(&mut self, devices: &[&PlannedDevice]) {
        let mut planned = Vec::new();
        lists::set_devices(
            &mut planned,
            |item: &&PlannedDevice| Some(&item.path),
            devices.iter().copied(),
        );
        for device in planned {
            let reason = match device.device_type {
                DeviceType::Unbuffered | DeviceType::Fifo => LossReason::NodeKind,
                _ if device.path.starts_with(REMOVAL) => LossReason::Removal,
                DeviceType::Block | DeviceType::Char => {
                    let linux = self.adjustment.linux.get_or_insert_default();
                    linux.devices.push(nri_device(device));
                    continue;
                }
            };
            self.lose(Change::SetDevice(device.clone()), reason);
        }
    }

    fn allow_device(&mut self, rule: &DeviceRule) {
        self.rules.push(*rule);
    }

    fn set_net_device(&mut self, host_name: &str, name: &str) {
        let device = NetDevice {
            host_interface_name: host_name.to_owned(),
            name: name.to_owned(),
        };
        if host_name.starts_with(REMOVAL) {
            self.lose(Change::SetNetDevice(device), LossReason::Removal);
            return;
        }
        let devices = &mut self.adjustment.linux.get_or_insert_default().net_devices;
        devices.insert(
            host_name.to_owned(),
            LinuxNetDevice {
                name: name.to_owned(),
            },
        );
        self.net_devices
            .retain(|other| other.host_interface_name != host_name);
        self.net_devices.push(device);
    }

    fn set_mounts(&mut self, mounts: &[&Mount]) {
        let mut items = Vec::new();
        for mount in mounts {
            if mount.container_path.starts_with(REMOVAL) {
                self.lose(Change::SetMount((*mount).clone()), LossReason::Removal);
                continue;
            }
            items.push(NriMount {
                destination: mount.container_path.clone(),
                r#type: mount.fs_type.clone().unwrap_or_default(),
                source: mount.host_path.clone(),
                options: mount.options.clone(),
            });
        }
        let list = &mut self.adjustment.mounts;
        lists::set_mounts(list, |item| Some(&item.destination), items.into_iter());
    }

    fn add_hook(&mut self, hook: &Hook) {
        let hooks = self.adjustment.hooks.get_or_insert_default();
        let Some(list) = hooks_of(hooks, &hook.hook_name) else {
            return; // No `Spec` has one.
        };
        list.push(NriHook {
            path: hook.path.clone(),
            args: hook.args.clone(),
            env: hook.env.clone(),
            timeout: hook.timeout.map(|value| OptionalInt { value }),
        });
    }

    /// NRI merges it with the container's own, which keeps the two schemas that NRI has no field
    /// for.
    fn set_intel_rdt(&mut self, rdt: &IntelRdt) {
        self.rdt = Some(rdt.clone());
        self.adjustment.linux.get_or_insert_default().rdt = Some(LinuxRdt {
            clos_id: Some(OptionalString {
                value: rdt.clos_id.clone(),
            }),
            schemata: Some(OptionalRepeatedString {
                value: rdt.schemata.clone().unwrap_or_default(),
            }),
            enable_monitoring: Some(OptionalBool {
                value: rdt.enable_monitoring,
            }),
            remove: false,
        });
    }

    fn add_gids(&mut self, gids: &[u32]) {
        let user = self.container.user.as_ref();
        let present = user.map_or(&[][..], |user| &user.additional_gids);
        let missing = gids.iter().filter(|gid| !present.contains(gid));
        let lost = missing.map(|gid| Loss {
            change: Change::AddGid(*gid),
            reason: LossReason::NoField,
        });
        self.lost.extend(lost);
    }
}

fn nri_device(device: &PlannedDevice) -> LinuxDevice {
    let id = |id: Option<u32>| id.map(|value| OptionalUInt32 { value });
    LinuxDevice {
        path: device.path.clone(),
        r#type: device.device_type.as_str().to_owned(),
        major: device.major,
        minor: device.minor,
        file_mode: device.file_mode.map(|value| OptionalFileMode { value }),
        uid: id(device.uid),
        gid: id(device.gid),
    }
}

fn planned(device: &LinuxDevice) -> Option<PlannedDevice> {
    Some(PlannedDevice {
        path: device.path.clone(),
        device_type: device.r#type.parse().ok()?,
        major: device.major,
        minor: device.minor,
        file_mode: device.file_mode.map(|mode| mode.value),
        uid: device.uid.map(|uid| uid.value),
        gid: device.gid.map(|gid| gid.value),
    })
}

fn hooks_of<'a>(hooks: &'a mut Hooks, name: &str) -> Option<&'a mut Vec<NriHook>> {
    Some(match name {
        "prestart" => &mut hooks.prestart,
        "createRuntime" => &mut hooks.create_runtime,
        "createContainer" => &mut hooks.create_container,
        "startContainer" => &mut hooks.start_container,
        "poststart" => &mut hooks.poststart,
        "poststop" => &mut hooks.poststop,
        _ => return None,
    })
}

/// The part of it that NRI has no field for.
fn unexpressed(rdt: IntelRdt) -> Option<Change> {
    let unexpressed = IntelRdt {
        l3_cache_schema: rdt.l3_cache_schema,
        mem_bw_schema: rdt.mem_bw_schema,
        ..IntelRdt::default()
    };
    (unexpressed != IntelRdt::default()).then_some(Change::SetIntelRdt(unexpressed))
}
