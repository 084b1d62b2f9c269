//! What kubelet takes without a word, and pods suffer from.

use std::collections::BTreeSet;

use crate::answer::is_cdi_id;
use crate::driver::Device;

/// A sentence for each thing that is wrong whatever the claim was allocated.
pub(super) fn objections(devices: &[Device]) -> Vec<String> {
    let mut objections = Vec::new();
    let mut seen = BTreeSet::new();
    for device in devices {
        let mut object = |what: &str| {
            objections.push(format!("{}/{} {what}", device.pool, device.device));
        };
        if device.pool.is_empty() || device.device.is_empty() {
            object("lacks the name of the pool or of the device");
        }
        if !seen.insert((&device.pool, &device.device, &device.share_id)) {
            object("comes twice with the same share id");
        }
        for id in device.cdi_ids.iter().filter(|id| !is_cdi_id(id)) {
            object(&format!("has `{id}`, which no runtime takes for a CDI id"));
        }
    }
    objections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_objected_to_for_each_thing_that_is_wrong_with_it() {
        let good = Device {
            pool: "n1".into(),
            device: "d0".into(),
            cdi_ids: vec!["example.com/test=u".into()],
            ..Device::default()
        };
        assert!(objections(std::slice::from_ref(&good)).is_empty());
        let bad = Device {
            cdi_ids: vec![String::new(), "a b".into()],
            ..Device::default()
        };
        assert_eq!(objections(&[good.clone(), good, bad]).len(), 4);
    }
}
