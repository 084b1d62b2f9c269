//! Joins what NVML and the kernel's files have of each GPU.

use std::collections::BTreeMap;

use nvml_session::Fact;

use crate::facts::GpuFacts;
use crate::host_files::FileFacts;
use crate::pci_address::PciAddress;

/// Joins by PCI address. A GPU whose address NVML cannot read is joined by UUID or minor, or else by being the only
/// one left. A GPU that only one of both has is a GPU, too.
pub(crate) fn join(
    nvml: Vec<GpuFacts>,
    mut files: BTreeMap<PciAddress, FileFacts>,
) -> Vec<GpuFacts> {
    let (known, unknown): (Vec<_>, Vec<_>) =
        nvml.into_iter().partition(|gpu| gpu.pci.known().is_some());
    let mut gpus: Vec<GpuFacts> = Vec::new();
    for mut gpu in known {
        let found = gpu.pci.known().and_then(|it| files.remove_entry(it));
        add_files(&mut gpu, found);
        gpus.push(gpu);
    }
    let (mut rest, mut lost): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for mut gpu in unknown {
        match address_of(&gpu, &files) {
            Some(address) => {
                add_files(&mut gpu, files.remove_entry(&address));
                rest.push(gpu);
            }
            None => lost.push(gpu),
        }
    }
    gpus.append(&mut rest);
    let driven = |facts: &FileFacts| facts.minor.known().is_some();
    if let [gpu] = lost.as_mut_slice()
        && let Some(address) = only(files.iter().filter(|it| driven(it.1)).map(|it| *it.0))
    {
        add_files(gpu, files.remove_entry(&address));
    }
    gpus.append(&mut lost);
    for found in files {
        let mut gpu = GpuFacts::default();
        add_files(&mut gpu, Some(found));
        gpus.push(gpu);
    }
    gpus.sort_by_key(|gpu| {
        let address = gpu.pci.known().copied();
        (address.is_none(), address, gpu.index.known().copied())
    });
    gpus
}

fn address_of(gpu: &GpuFacts, files: &BTreeMap<PciAddress, FileFacts>) -> Option<PciAddress> {
    let by = |is_same: &dyn Fn(&FileFacts) -> bool| {
        files.iter().find(|it| is_same(it.1)).map(|it| *it.0)
    };
    let is_known = |fact: bool, same: bool| fact && same;
    by(&|it| {
        is_known(
            gpu.uuid.known().is_some(),
            it.uuid.known() == gpu.uuid.known(),
        )
    })
    .or_else(|| {
        by(&|it| {
            is_known(
                gpu.minor.known().is_some(),
                it.minor.known() == gpu.minor.known(),
            )
        })
    })
}

fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}

fn add_files(gpu: &mut GpuFacts, found: Option<(PciAddress, FileFacts)>) {
    let Some((address, files)) = found else {
        return;
    };
    let FileFacts {
        minor,
        uuid,
        name,
        device_id,
        numa_node,
        pcie_root,
        pci_driver,
        iommu_group,
    } = files;
    gpu.pci = Fact::Known(address);
    gpu.minor = std::mem::take(&mut gpu.minor).or(minor);
    gpu.uuid = std::mem::take(&mut gpu.uuid).or(uuid);
    gpu.name = std::mem::take(&mut gpu.name).or(name);
    gpu.device_id = device_id;
    gpu.numa_node = numa_node;
    gpu.pcie_root = pcie_root;
    gpu.pci_driver = pci_driver;
    gpu.iommu_group = iommu_group;
}
