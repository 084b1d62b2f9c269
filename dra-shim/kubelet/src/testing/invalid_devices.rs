//! Checks of prepared devices for problems that kubelet accepts and that make pods fail.

use std::collections::BTreeSet;

use crate::driver::PreparedDevice;
use crate::names::is_cdi_id;

/// Returns a message for each problem that is visible without the allocation.
pub(super) fn problems(devices: &[PreparedDevice]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for device in devices {
        let mut report = |what: &str| {
            problems.push(format!("{}/{} {what}", device.pool, device.device));
        };
        if device.pool.is_empty() || device.device.is_empty() {
            report("lacks a pool name or a device name");
        }
        if !seen.insert((&device.pool, &device.device, &device.share_id)) {
            report("is returned twice with the same share id");
        }
        for id in device.cdi_ids.iter().filter(|id| !is_cdi_id(id)) {
            report(&format!("has `{id}`, which is not a valid CDI device id"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_of_a_device_is_reported() {
        let good = PreparedDevice {
            pool: "n1".into(),
            device: "d0".into(),
            cdi_ids: vec!["example.com/test=u".into()],
            ..PreparedDevice::default()
        };
        assert!(problems(std::slice::from_ref(&good)).is_empty());
        let bad = PreparedDevice {
            cdi_ids: vec![String::new(), "a b".into()],
            ..PreparedDevice::default()
        };
        assert_eq!(problems(&[good.clone(), good, bad]).len(), 4);
    }
}
