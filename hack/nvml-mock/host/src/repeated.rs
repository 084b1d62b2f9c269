//! Hosts with more GPUs than a recorded one.

use gpu_inventory::{Fact, GpuFacts, Inventory};

/// The host with this number of GPUs: first its own, then the same again in other PCI domains, with other UUIDs.
pub fn repeated(host: &Inventory, gpus: u32) -> Inventory {
    let models = host.gpus.iter().cycle();
    let numbered = (0..gpus).zip(models);
    let mut host = host.clone();
    host.driver.gpu_count = Fact::Known(gpus);
    let own = u32::try_from(host.gpus.len()).unwrap();
    host.gpus = numbered
        .map(|(number, model)| gpu(number, number / own, model))
        .collect();
    host
}

fn gpu(number: u32, domain: u32, model: &GpuFacts) -> GpuFacts {
    let in_domain = |text: &str| text.replacen("0000:", &format!("{domain:04x}:"), 1);
    let address = model.pci.known().unwrap().to_string();
    let root = model.pcie_root.known().unwrap();
    GpuFacts {
        pci: Fact::Known(in_domain(&address).parse().unwrap()),
        pcie_root: Fact::Known(in_domain(root)),
        index: Fact::Known(number),
        minor: Fact::Known(number),
        module_id: Fact::Known(number + 1),
        uuid: Fact::Known(format!("GPU-00000000-0000-4000-8000-{number:012x}")),
        ..model.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_first_gpus_are_those_of_the_host_and_all_are_different() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../dra-shim/gpu/inventory/tests/inventories/h100.json"
        );
        let host: Inventory = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(repeated(&host, 8), host);
        let many = repeated(&host, 72).gpus;
        assert_eq!(many[..8], host.gpus);
        let pci: BTreeSet<_> = many.iter().filter_map(|gpu| gpu.pci.known()).collect();
        let uuids: BTreeSet<_> = many.iter().filter_map(|gpu| gpu.uuid.known()).collect();
        assert_eq!((pci.len(), uuids.len()), (72, 72));
    }
}
