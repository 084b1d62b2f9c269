//! Joins what NVML and the kernel's files have of each GPU.

use std::collections::BTreeMap;

use nvml_session::Fact;

use crate::facts::GpuFacts;
use crate::host_files::FileFacts;
use crate::pci_address::PciAddress;

/// Joins by PCI address, or else by UUID or minor. Suppose that NVML cannot read any of these for some GPUs, and the
/// driver has as many GPUs left. Then both are joined in their order, because NVML enumerates by PCI address. A GPU
/// that only NVML or only the driver has is kept.
// req: GPU-3
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
    let driven: Vec<PciAddress> = files
        .iter()
        .filter(|it| it.1.minor.known().is_some())
        .map(|it| *it.0)
        .collect();
    if driven.len() == lost.len() {
        for (gpu, address) in lost.iter_mut().zip(driven) {
            add_files(gpu, files.remove_entry(&address));
        }
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
    by(&|it| same(&gpu.uuid, &it.uuid)).or_else(|| by(&|it| same(&gpu.minor, &it.minor)))
}

fn same<T: PartialEq>(one: &Fact<T>, other: &Fact<T>) -> bool {
    one.known().is_some() && one.known() == other.known()
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
        drm,
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
    gpu.drm = drm;
}
