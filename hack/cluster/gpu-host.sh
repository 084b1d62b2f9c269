#!/usr/bin/env bash
# Makes the node in which it runs a GPU host with the mock driver: the driver root
# (hack/mock-driver.sh), and what a loaded driver and an administrator add outside of
# it: files in /proc, the device node of the IMEX capability, nvidia-imex.
#
#   gpu-host.sh DRIVER_ROOT [OPTION]...    options as in hack/mock-driver.sh
#
# hack/mock-node.sh runs it, again for each change.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/lib.sh
. "$here/../lib.sh"
# shellcheck source=hack/cluster/state.sh
. "$here/state.sh"
# shellcheck source=hack/cluster/namespaces.sh
. "$here/namespaces.sh"

driver_root=$1
capability=driver/nvidia/capabilities/fabric-imex-mgmt
nodes_config=/etc/nvidia-imex/nodes_config.cfg

# mock-driver.sh reads the kernel's own /proc/devices, so the mock's is unmounted
# first. Each run replaces the file, so it is mounted again; the directory
# proc/driver stays.
lay_out() {
    ! mountpoint -q /proc/devices || umount /proc/devices
    "$here/../mock-driver.sh" "$@"
    mount --bind "$driver_root/proc/devices" /proc/devices
    mountpoint -q /proc/driver || mount --bind "$driver_root/proc/driver" /proc/driver
}

# Creates the device node of the capability like nvidia-modprobe.
make_capability() {
    local major minor node
    major=$(awk '$2 == "nvidia-caps" {print $1}' /proc/devices)
    minor=$(awk '$1 == "DeviceFileMinor:" {print $2}' "/proc/$capability")
    node=/dev/nvidia-caps/nvidia-cap$minor
    mkdir -p /dev/nvidia-caps
    rm -f "$node"
    mknod -m 400 "$node" c "$major" "$minor"
}

# Whether the driver root has nvidia-imex, for the driver to run: then the host runs none.
is_driver_managed() { [ -e "$driver_root/usr/bin/nvidia-imex" ]; }

stop_imex() {
    local pid
    pid=$(cat /run/nvidia-imex.pid 2>/dev/null) || return 0
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != nvidia-imex ] || kill -- "-$pid"
    rm -f /run/nvidia-imex.pid
}

# Starts a process with the daemon's name, and writes its configuration, the same on all nodes.
start_imex() {
    local pid k
    mkdir -p "$(dirname "$nodes_config")"
    for k in $(seq 1 "$(node_count)"); do node_address "$k"; done >"$nodes_config"
    pid=$(cat /run/nvidia-imex.pid 2>/dev/null) || pid=none
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != nvidia-imex ] || return 0
    setsid "$here/nvidia-imex" </dev/null >/dev/null 2>&1 &
    echo $! >/run/nvidia-imex.pid
}

lay_out "$@"
make_capability
if is_driver_managed; then stop_imex; else start_imex; fi
