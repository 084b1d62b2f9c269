# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with its siblings
# Mounts and network of the cluster's processes, for the control plane and for each
# node. All of it is in private namespaces and ends with them. Sourced after state.sh
# and cgroups.sh.
#
#   control plane   10.200.0.1       bridge "nodes"
#   node K          10.200.0.(10+K)  eth0, hostname nodeK, pods in 10.201.K.0/24
#
# Changes in /run, /etc, /var/lib and a node's /dev are private. The directories
# with a node's data below them are mounted from the state directory.

containerd_socket=/run/containerd/containerd.sock

node_address() { echo "10.200.0.$((10 + $1))"; }
pod_subnet() { echo "10.201.$1.0/24"; }

# Mounts that all nodes and the control plane share.
mount_common() {
    mount -t proc proc /proc
    fence_sysctls
    mount_sys
    mount -t tmpfs -o mode=755 tmpfs /run
    mount_writable_copy /etc
    mount_writable_copy /var/lib
    rm -f /etc/resolv.conf /etc/hosts
    : >/etc/resolv.conf # no name server: the API server would wait for it
    echo "127.0.0.1 localhost" >/etc/hosts
    mkdir -p /etc/cdi /var/lib/kubelet /var/lib/containerd /var/lib/cni
}

# kubelet sets these for the whole machine. Here it finds the values that it wants,
# and if it writes, it writes to a private file.
fence_sysctls() {
    local name value
    mkdir -p "$state/sysctl"
    while read -r name value; do
        [ -e "/proc/sys/$name" ] || continue # keys are optional in the kernel
        echo "$value" >"$state/sysctl/${name//\//.}"
        mount --bind "$state/sysctl/${name//\//.}" "/proc/sys/$name"
    done <<-EOT
	vm/overcommit_memory 1
	vm/panic_on_oom 0
	kernel/panic 10
	kernel/panic_on_oops 1
	kernel/keys/root_maxkeys 1000000
	kernel/keys/root_maxbytes 25000000
	EOT
}

mount_writable_copy() {
    local over=/run/cluster$1
    mkdir -p "$over/changes" "$over/work"
    mount -t overlay -o "lowerdir=$1,upperdir=$over/changes,workdir=$over/work" overlay "$1"
}

# Mounts the machine's devices without NVIDIA's. The node adds those of its own
# driver: each node has other majors. Mounts below /dev are the machine's.
mount_own_dev() {
    local machine=/run/cluster/machine-dev path
    mkdir -p "$machine"
    mount --rbind /dev "$machine"
    mount_writable_copy /dev
    rm -rf /dev/nvidia* # of the machine's GPU, or leftovers
    for path in pts shm; do
        [ ! -d "$machine/$path" ] || mount --rbind "$machine/$path" "/dev/$path"
    done
    umount --lazy "$machine"
    rmdir "$machine"
}

# In the mount and network namespace of node $1.
mount_node() {
    local data=$state/node$1 path
    mount -t tmpfs -o mode=755 tmpfs /run
    mount_own_dev
    mount_sys
    for path in /etc/cdi /var/lib/kubelet /var/lib/containerd /var/lib/cni /var/log; do
        mkdir -p "$data$path"
        mount --bind "$data$path" "$path"
    done
    # Shared, as systemd sets it up on a host: volumes with mount propagation need it.
    # The node's namespace is a private copy, so nothing propagates outside.
    mount --make-rshared /
    echo "node$1" >/proc/sys/kernel/hostname
}

control_plane_network() {
    ip link set lo up
    ip link add nodes type bridge
    ip address add 10.200.0.1/24 dev nodes
    ip link set nodes up
    echo 1 >/proc/sys/net/ipv4/ip_forward
}

# Connects node $1 (process $2 is in its network namespace) with the control plane.
# Adds routes between its pods and those of the other nodes.
node_network() {
    local k=$1 anchor=$2 other
    ip link add "node$k" type veth peer name eth0 netns "$anchor"
    ip link set "node$k" master nodes up
    ip route add "$(pod_subnet "$k")" via "$(node_address "$k")"
    {
        echo link set lo up
        echo "address add $(node_address "$k")/24 dev eth0"
        echo link set eth0 up
        echo route add default via 10.200.0.1
        for other in $(seq 1 "$(node_count)"); do
            [ "$other" = "$k" ] || echo "route add $(pod_subnet "$other") via $(node_address "$other")"
        done
    } | nsenter --target "$anchor" --net ip -batch -
    nsenter --target "$anchor" --net sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
}
