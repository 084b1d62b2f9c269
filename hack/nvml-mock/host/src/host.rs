//! The host.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use gpu_inventory::{Fact, GpuFacts, Inventory, PciAddress};
use serde_json::{Value, json};

/// A host in a directory, which the caller removes.
#[derive(Debug)]
pub struct MockHost {
    dir: PathBuf,
    inventory: Inventory,
}

// === impl MockHost ===

impl MockHost {
    /// Makes a host with this inventory in `dir`, which exists. `library` is the built mock.
    pub fn new(dir: &Path, inventory: &Inventory, library: &Path) -> Self {
        let host = Self {
            dir: dir.to_owned(),
            inventory: inventory.clone(),
        };
        host.write_nvml(library);
        host.write_proc();
        for gpu in &inventory.gpus {
            if let Some(address) = gpu.pci.known() {
                host.write_gpu(*address, gpu);
            }
        }
        host
    }

    /// Lets calls fail, hang or abort: more members of `nvml-mock.json`.
    pub fn inject(&self, faults: &Value) {
        let mut config = json!({"driver_version": "0", "inventory": "inventory.json"});
        let members = faults.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(members);
        self.write("usr/lib64/nvml-mock.json.new", &config.to_string());
        let path = self.path("usr/lib64/nvml-mock.json");
        fs::rename(path.with_extension("json.new"), path).unwrap();
    }

    /// Gives NVML the GPUs of another inventory, and ends faults. `/proc` and sysfs stay.
    pub fn replace_inventory(&self, inventory: &Inventory) {
        let text = serde_json::to_string(inventory).unwrap();
        self.write("usr/lib64/inventory.json", &text);
        self.inject(&json!({}));
    }

    /// Gives the GPUs the MIG devices of another inventory, as a MIG manager does.
    pub fn replace_mig(&self, inventory: &Inventory) {
        self.replace_inventory(inventory);
        self.remove("proc/driver/nvidia/capabilities");
        for gpu in &inventory.gpus {
            self.write_capabilities(gpu);
        }
    }

    /// Lets an event of a GPU happen: a line of `nvml-mock.events`.
    pub fn event(&self, event: &Value) {
        let path = self.path("usr/lib64/nvml-mock.events");
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        file.unwrap()
            .write_all(format!("{event}\n").as_bytes())
            .unwrap();
    }

    /// Gives the driver root the names of an installed driver, with this `libcuda`.
    pub fn install_cuda(&self, library: &Path, version: &str) {
        let dir = self.path("usr/lib64");
        let nvml = dir.join("libnvidia-ml.so.1");
        fs::rename(&nvml, dir.join(format!("libnvidia-ml.so.{version}"))).unwrap();
        symlink(format!("libnvidia-ml.so.{version}"), nvml).unwrap();
        fs::copy(library, dir.join(format!("libcuda.so.{version}"))).unwrap();
        symlink(format!("libcuda.so.{version}"), dir.join("libcuda.so.1")).unwrap();
    }

    /// Gives the driver root an `nvidia-smi` that sets time slices and the default compute mode. It fails if the root has
    /// the file `nvidia-smi-fails` with an exit code and a text.
    pub fn install_smi(&self) {
        let script = r#"#!/bin/sh
root=${0%/usr/bin/*}
if [ -e "$root/nvidia-smi-fails" ]; then
    read -r code text <"$root/nvidia-smi-fails"
    echo "$text"
    exit "$code"
fi
[ "$1 $3 $4 $#" = "-i -c DEFAULT 4" ] && exit
[ "$1 $2 $4 $#" = "compute-policy -i --set-timeslice 5" ] || exit 2
mkdir -p "$root/time-slices"
echo "$5" >"$root/time-slices/$3"
"#;
        self.write("usr/bin/nvidia-smi", script);
        let program = self.path("usr/bin/nvidia-smi");
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The numbers of the time slices that were set last: only of GPUs without the default.
    pub fn time_slices(&self) -> Vec<String> {
        let set = fs::read_dir(self.path("time-slices"));
        let set = set.into_iter().flatten().flatten();
        let numbers = set.map(|file| fs::read_to_string(file.path()).unwrap());
        let numbers = numbers.map(|it| it.trim().to_owned());
        numbers.filter(|it| it != "0").collect()
    }

    /// A command that runs the program in its arguments where `/proc` and `/sys` are this host's. Needs root.
    pub fn command(&self) -> Command {
        let script = "set -e
            mount --make-rprivate /
            mount --bind \"$0/proc/devices\" /proc/devices
            mount --bind \"$0/proc/driver\" /proc/driver
            mount --bind \"$0/sys\" /sys
            exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", script])
            .arg(self.path(""));
        command
    }

    /// Removes a file or a directory.
    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        fs::remove_dir_all(&path)
            .or_else(|_| fs::remove_file(&path))
            .unwrap();
    }

    /// The path of a file of the host, relative to its root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    /// Writes a file, and makes its directories.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn write_nvml(&self, library: &Path) {
        fs::create_dir_all(self.path("usr/lib64")).unwrap();
        let file = self.path("usr/lib64/libnvidia-ml.so.1");
        // A copy of megabytes for each of hundreds of hosts takes a minute.
        fs::hard_link(library, &file)
            .or_else(|_| fs::copy(library, &file).map(drop))
            .unwrap();
        let inventory = serde_json::to_string(&self.inventory).unwrap();
        self.write("usr/lib64/inventory.json", &inventory);
        self.inject(&json!({}));
    }

    fn write_proc(&self) {
        let Inventory { host, driver, .. } = &self.inventory;
        if let Some(version) = driver.module.known() {
            let machine = std::env::consts::ARCH;
            let line = format!(
                "NVRM version: NVIDIA UNIX Open Kernel Module for {machine}  {version}  Release Build\nGCC version: 13.3.0\n"
            );
            self.write("proc/driver/nvidia/version", &line);
        }
        let optional = |path: &str, text: Option<&String>| {
            if let Some(text) = text {
                self.write(path, &format!("{text}\n"));
            }
        };
        optional("proc/sys/kernel/osrelease", host.kernel.known());
        optional("proc/sys/kernel/random/boot_id", host.boot_id.known());
        if let Some(memory) = host.memory.known() {
            let kib = memory / 1024;
            self.write(
                "proc/meminfo",
                &format!("MemTotal:       {kib} kB\nMemFree:  1 kB\n"),
            );
        }
        if let Some(majors) = host.majors.known() {
            let lines = majors
                .iter()
                .map(|(name, major)| format!("{major:3} {name}\n"));
            let lines: String = lines.collect();
            let text =
                format!("Character devices:\n  1 mem\n{lines}\nBlock devices:\n259 nvidia-disk\n");
            self.write("proc/devices", &text);
        }
        if let Some(has_iommu) = host.iommu.known() {
            fs::create_dir_all(self.path("sys/kernel/iommu_groups")).unwrap();
            if *has_iommu {
                fs::create_dir_all(self.path("sys/kernel/iommu_groups/0")).unwrap();
            }
        }
    }

    /// The files of the capabilities of MIG devices. Their minors are this mock's own.
    fn write_capabilities(&self, gpu: &GpuFacts) {
        let (Some(mig), Some(minor)) = (gpu.mig.known(), gpu.minor.known()) else {
            return;
        };
        for device in mig.devices.iter().filter_map(Fact::known) {
            let instance = device.gpu_instance.id;
            let compute = device.compute_instance;
            let dir = format!("proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance}");
            let first = 3 + 128 * minor + 9 * instance;
            let write = |file: String, minor| {
                let lines =
                    format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
                self.write(&file, &lines);
            };
            write(format!("{dir}/access"), first);
            write(format!("{dir}/ci{compute}/access"), first + 1 + compute);
        }
    }

    fn write_gpu(&self, address: PciAddress, gpu: &GpuFacts) {
        let (name, uuid) = (gpu.name.known(), gpu.uuid.known());
        let mut lines = vec![format!("Bus Location: \t {address}")];
        lines.extend(name.map(|name| format!("Model: \t\t {name}")));
        lines.extend(uuid.map(|uuid| format!("GPU UUID: \t {uuid}")));
        lines.extend(gpu.minor.known().map(|it| format!("Device Minor: \t {it}")));
        let information = format!("proc/driver/nvidia/gpus/{address}/information");
        self.write(&information, &(lines.join("\n") + "\n"));

        self.write_capabilities(gpu);

        let root = gpu.pcie_root.known().map_or("platform", String::as_str);
        let device = format!("sys/devices/{root}/{address}");
        self.write(&format!("{device}/vendor"), "0x10de\n");
        self.write(&format!("{device}/class"), "0x030200\n");
        if let Some(id) = gpu.device_id.known() {
            self.write(&format!("{device}/device"), &format!("{id:#06x}\n"));
        }
        let node = gpu.numa_node.known().map_or(-1, |node| i64::from(*node));
        self.write(&format!("{device}/numa_node"), &format!("{node}\n"));
        let link = |target: String, name: &str| {
            symlink(target, self.path(&format!("{device}/{name}"))).unwrap();
        };
        for node in gpu.drm.known().into_iter().flatten() {
            let numbers = format!("{}:{}\n", node.major, node.minor);
            self.write(&format!("{device}/drm/{}/dev", node.name), &numbers);
        }
        if let Some(driver) = gpu.pci_driver.known() {
            link(format!("../../../bus/pci/drivers/{driver}"), "driver");
        }
        if let Some(group) = gpu.iommu_group.known() {
            link(
                format!("../../../kernel/iommu_groups/{group}"),
                "iommu_group",
            );
        }
        let devices = self.path("sys/bus/pci/devices");
        fs::create_dir_all(&devices).unwrap();
        let target = format!("../../../devices/{root}/{address}");
        symlink(target, devices.join(address.to_string())).unwrap();
    }
}

/// The mock, built by the cargo that runs the tests.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built("nvml-mock"))
}

/// The program or `cdylib` of a package of this workspace, built by the cargo that runs the tests.
pub fn built(package: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "-p", package])
        .arg("--message-format=json")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "cannot build {package}: {errors}");
    let messages = String::from_utf8(built.stdout).unwrap();
    let library = format!("/lib{}.so", package.replace('-', "_"));
    let program = format!("/{package}");
    let is_it = |text: &&str| {
        text.ends_with(&library) || (text.ends_with(&program) && Path::new(text).is_file())
    };
    let file = messages.split('"').find(is_it);
    file.expect("cargo names the file it built").into()
}
