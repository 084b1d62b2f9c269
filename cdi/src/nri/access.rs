//! Rules of the device cgroup: NRI makes one for each node, and chooses its access itself.

use std::collections::{BTreeMap, BTreeSet};

use nri_plugin::api::{ContainerAdjustment, LinuxDeviceCgroup, OptionalInt64};

use super::loss::{Loss, LossReason};
use super::release::NriRelease;
use crate::{Change, DeviceRule, DeviceType, Permissions};

/// Type, major and minor of a device.
type Numbers = (String, i64, i64);
/// What is allowed with each device. Rules add up.
type Access = BTreeMap<Numbers, Permissions>;

const NONE: Permissions = Permissions {
    read: false,
    write: false,
    mknod: false,
};

/// Adds the rules that do not come with the nodes, and reports the differences that remain.
pub(super) fn grant(
    adjustment: &mut ContainerAdjustment,
    rules: &[DeviceRule],
    release: NriRelease,
    lost: &mut Vec<Loss>,
) {
    let given = given(adjustment);
    let mut wanted = Access::new();
    for rule in rules {
        let access = wanted.entry(numbers(rule)).or_insert(NONE);
        *access = access.union(rule.access);
    }
    let (mut reported, mut own) = (BTreeSet::new(), BTreeSet::new());
    for rule in rules {
        let numbers = numbers(rule);
        let given = given.get(&numbers).copied().unwrap_or(NONE);
        let mut report = |reason| {
            let change = Change::AllowDevice(*rule);
            lost.push(Loss { change, reason });
        };
        let own_rule = (numbers.clone(), String::from(rule.access));
        if !given.contains(rule.access) && own.insert(own_rule) {
            let linux = adjustment.linux.get_or_insert_default();
            let resources = linux.resources.get_or_insert_default();
            resources.devices.push(cgroup_rule(rule));
            if release < NriRelease::Nri0_10 {
                report(LossReason::LessAccess(given));
            }
        }
        let excess = !wanted.get(&numbers).is_some_and(|all| all.contains(given));
        if excess && reported.insert(numbers) {
            report(LossReason::MoreAccess(given));
        }
    }
}

/// What runtimes allow for the nodes, whatever their modes: block devices also `m`.
fn given(adjustment: &ContainerAdjustment) -> Access {
    let devices = adjustment.linux.iter().flat_map(|linux| &linux.devices);
    let access = devices.map(|device| {
        let numbers = (device.r#type.clone(), device.major, device.minor);
        let mknod = device.r#type == DeviceType::Block.as_str();
        (
            numbers,
            Permissions {
                mknod,
                ..Permissions::READ_WRITE
            },
        )
    });
    access.collect()
}

fn numbers(rule: &DeviceRule) -> Numbers {
    let kind = rule.device_type.as_str().to_owned();
    (kind, rule.major, rule.minor)
}

fn cgroup_rule(rule: &DeviceRule) -> LinuxDeviceCgroup {
    let number = |value| Some(OptionalInt64 { value });
    LinuxDeviceCgroup {
        allow: true,
        r#type: rule.device_type.as_str().to_owned(),
        major: number(rule.major),
        minor: number(rule.minor),
        access: rule.access.into(),
    }
}
