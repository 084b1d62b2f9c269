//! Hosts with one cause and its consequences.

use super::Row;
use crate::channel_nodes::mknod;
use crate::host::Host;
use crate::makers::{FIB_TRIE, NODES};

const IMEX_GUIDE: &str = "NVIDIA IMEX guide";
const DRIVER: &str = "NVIDIA's open kernel modules, nv-caps-imex.c and nv-reg.h";

pub(super) const ROWS: [Row; 20] = [
    row(
        "enabled, and not running",
        "host-imex-not-running",
        IMEX_GUIDE,
        down,
    )
    .needs_node(),
    row(
        "enabled, and not running, on a host whose first process has a name of its own",
        "host-imex-not-running",
        "linux/proc_ns.h, PROC_PID_INIT_INO",
        || {
            let host = down();
            host.write("proc/1/comm", "machined\n");
            host.namespace(1, "pid:[4026531836]");
            host
        },
    )
    .needs_node(),
    row(
        "enabled, and not running, in a system container",
        "host-imex-not-running",
        "pid_namespaces(7); LXD runs systemd",
        || {
            let host = down();
            host.namespace(1, "pid:[4026534001]");
            host
        },
    )
    .needs_node(),
    row(
        "its capability's node is missing",
        "imex-capability-node-missing",
        "NVIDIA driver, fabric-imex-mgmt",
        || {
            let host = running();
            host.remove("proc/700");
            host
        },
    ),
    row(
        "its capability's node is none",
        "imex-capability-node-wrong",
        "NVIDIA driver, fabric-imex-mgmt",
        || {
            let host = running();
            host.remove("proc/700");
            host.write("dev/nvidia-caps/nvidia-cap4323", "");
            host
        },
    ),
    row(
        "an empty list of nodes",
        "host-imex-no-nodes",
        IMEX_GUIDE,
        || {
            let host = down();
            host.write(NODES, "# none yet\n");
            host
        },
    )
    .needs_node(),
    row("no list of nodes", "host-imex-no-nodes", IMEX_GUIDE, || {
        let host = down();
        host.remove(NODES);
        host
    })
    .needs_node(),
    row(
        "not in its own list, and so not running",
        "host-imex-own-address-missing",
        IMEX_GUIDE,
        || {
            let host = down();
            host.write(NODES, "10.0.0.2\n10.0.0.3\n");
            host
        },
    )
    .needs_node(),
    row(
        "not in its own list, by the names that the host has",
        "host-imex-own-address-missing",
        "NVIDIA IMEX guide; hosts(5)",
        || {
            let host = down();
            host.write("etc/hosts", "10.0.0.2 tray02\n10.0.0.3 tray03\n");
            host.write(NODES, "tray02\ntray03\n");
            host
        },
    )
    .needs_node(),
    row(
        "taken out of the list of names while it runs",
        "host-imex-own-address-missing",
        "NVIDIA IMEX guide; hosts(5)",
        || {
            let host = running();
            host.write("etc/hosts", "10.0.0.1 tray01\n10.0.0.2 tray02\n");
            host.write(NODES, "tray02\n10.0.0.3\n");
            host
        },
    ),
    row(
        "taken out of the list while it runs",
        "host-imex-own-address-missing",
        IMEX_GUIDE,
        || {
            let host = running();
            host.write(NODES, "10.0.0.255\nfd00::2\n");
            host
        },
    ),
    row(
        "not in its own list, in a copy of a root without the processes' networks",
        "host-imex-own-address-missing",
        IMEX_GUIDE,
        || {
            let host = running();
            for pid in [1, 700, 800] {
                host.remove(&format!("proc/{pid}/net"));
            }
            host.write("proc/net/fib_trie", FIB_TRIE);
            host.write(NODES, "10.0.0.2\n");
            host
        },
    ),
    row(
        "Vera Rubin image, and a driver that starts daemons",
        "host-imex-two-daemons",
        "NVIDIA/aicr#2601, GPU operator's prerequisites",
        || {
            let host = running();
            host.plugin();
            host.imex_in_pod();
            host
        },
    ),
    row(
        "masked, where the plugin leaves IMEX to the host",
        "host-imex-not-running",
        "this driver's imex.mode=hostManaged",
        || {
            let host = prepared();
            host.plugin_process("NODE_NAME=a\nIMEX_MODE=hostManaged\n");
            host
        },
    ),
    row(
        "disabled, where the plugin leaves IMEX to the host by its gate",
        "host-imex-not-running",
        "this driver's featureGates.HostManagedIMEX",
        || {
            let host = prepared();
            host.remove("etc/systemd/system/nvidia-imex.service");
            host.plugin_process("FEATURE_GATES=AllBeta=true,HostManagedIMEX=true\n");
            host
        },
    ),
    row(
        "channel 0 open to all beside claims",
        "imex-channel0-open-to-all",
        DRIVER,
        || {
            let host = running();
            host.plugin();
            host.params("ModifyDeviceFiles: 1\nImexChannelCount: 2048\nCreateImexChannel0: 1\n");
            host
        },
    ),
    row(
        "no channels by option",
        "imex-channels-disabled",
        DRIVER,
        || {
            let host = running();
            host.params("ModifyDeviceFiles: 1\nImexChannelCount: 0\nCreateImexChannel0: 0\n");
            host.write("proc/devices", "Character devices:\n234 nvidia-caps\n");
            host
        },
    ),
    row(
        "no major of channels",
        "imex-channel-major-missing",
        DRIVER,
        || {
            let host = running();
            host.plugin();
            host.write("proc/devices", "Character devices:\n234 nvidia-caps\n");
            host
        },
    ),
    row(
        "R535, before channels",
        "driver-too-old",
        "NVIDIA driver 535, params without ImexChannelCount",
        || {
            let host = Host::with_driver("usr/lib64", "535.54.03");
            host.params("ModifyDeviceFiles: 1\n");
            host.remove("proc/driver/nvidia/capabilities/fabric-imex-mgmt");
            host.write(
                "proc/devices",
                "Character devices:\n195 nvidia\n234 nvidia-caps\n",
            );
            host.plugin();
            host
        },
    ),
    row(
        "a driver that takes no host names, where this driver runs IMEX",
        "driver-too-old",
        "NVIDIA's driver, minimum of IMEXDaemonsWithDNSNames: 570.158.01",
        || {
            let host = Host::with_driver("usr/lib64", "550.163.01");
            host.plugin();
            host.plugin_process("NODE_NAME=a\nIMEXD_DIR=/run/imex-dra/imexd\n");
            host
        },
    ),
];

pub(super) const fn row(
    host: &'static str,
    first: &'static str,
    source: &'static str,
    build: fn() -> Host,
) -> Row {
    Row {
        host,
        source,
        first: Some(first),
        needs_node: false,
        build,
    }
}

pub(super) fn running() -> Host {
    let host = Host::with_driver("usr/lib64", "580.82.07");
    host.imex_by_host();
    host
}

/// Enabled, and ended, though it has the node that it needs.
fn down() -> Host {
    let host = running();
    host.remove("proc/700");
    mknod(&host, "c", 234, 4323);
    host
}

/// After the checkpoint was written.
pub(super) fn rebooted() -> Host {
    let host = running();
    host.plugin();
    let boot = "00000000-0000-4000-8000-000000000000\n";
    host.write("proc/sys/kernel/random/boot_id", boot);
    host
}

/// As the GPU operator requires.
fn prepared() -> Host {
    let host = Host::with_driver("usr/lib64", "580.82.07");
    host.imex_package();
    host.imex_masked("etc/systemd/system");
    host.plugin();
    host
}
