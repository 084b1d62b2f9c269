# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with its siblings
# A node: a process that keeps its mount, network and host name namespaces open (the
# anchor), and containerd, kubelet and kube-proxy inside them. Sourced after
# control-plane.sh.

# Starts the anchor of node $1 and waits for its mounts.
start_anchor() {
    local k=$1 ready
    mkdir -p "$state/node$k"
    exec {ready}< <(exec 9>&-; exec unshare --mount --net --uts --propagation private bash "$here/supervisor.sh" anchor "$k")
    echo $! >"$state/node$k/anchor"
    read -r -u "$ready" _ || { say "node$k: its namespaces could not be made"; return 1; }
    exec {ready}<&-
    node_network "$k" "$(cat "$state/node$k/anchor")"
}

# Runs as the anchor of node $1.
hold_node() {
    mount_node "$1"
    echo ready
    exec sleep infinity >/dev/null
}

# in_node K PROGRAM ARG...: executes the program inside node K.
in_node() {
    local anchor
    anchor=$(cat "$state/node$1/anchor")
    shift
    as_component nsenter --target "$anchor" --mount --net --uts -- "$@"
}

# Prints overlayfs, or native if the state directory's file system cannot be the
# upper layer of an overlay (as in a container).
snapshotter() {
    local probe=$state/tmp/overlay
    mkdir -p "$probe"/{lower,upper,work,merged}
    if mount -t overlay -o "lowerdir=$probe/lower,upperdir=$probe/upper,workdir=$probe/work" overlay "$probe/merged" 2>/dev/null; then
        umount "$probe/merged"
        echo overlayfs
    else
        echo native
    fi
}

write_node_configs() {
    local k=$1
    write_containerd_config "$k"
    write_kubelet_config "$k"
    write_proxy_config "$k"
}

# restrict_oom_score_adj: without it, runc fails if CAP_SYS_RESOURCE is missing.
# No AppArmor: containerd would load profiles into the host's kernel. opt and NRI's
# plugin_path: their defaults are in the host's /opt.
write_containerd_config() {
    local config=$state/node$1
    cat >"$config/containerd.toml" <<-EOT
	version = 3
	[grpc]
	address = '$containerd_socket'
	[plugins.'io.containerd.internal.v1.opt']
	path = '/var/lib/containerd/opt'
	[plugins.'io.containerd.nri.v1.nri']
	disable = false
	socket_path = '/run/nri/nri.sock'
	plugin_path = '/var/lib/containerd/nri-plugins'
	plugin_config_path = '/var/lib/containerd/nri-conf'
	[plugins.'io.containerd.cri.v1.images']
	snapshotter = '$(cat "$state/snapshotter")'
	[plugins.'io.containerd.cri.v1.images'.pinned_images]
	sandbox = '$pause_image'
	[plugins.'io.containerd.cri.v1.runtime']
	enable_cdi = true
	cdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']
	restrict_oom_score_adj = true
	disable_apparmor = true
	[plugins.'io.containerd.cri.v1.runtime'.cni]
	bin_dirs = ['$programs']
	conf_dir = '$config/cni'
	[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
	runtime_type = 'io.containerd.runc.v2'
	[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
	BinaryName = '$(command -v runc)'
	SystemdCgroup = false
	EOT
    mkdir -p "$config/cni"
    cat >"$config/cni/pods.conflist" <<-EOT
	{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
	  "type": "bridge", "bridge": "cni0", "isGateway": true,
	  "ipam": {"type": "host-local", "dataDir": "/run/cni",
	           "ranges": [[{"subnet": "$(pod_subnet "$1")"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
	EOT
}

# syncFrequency: how soon kubelet retries a claim that could not be prepared.
# volumePluginDir: the default would be created in the host's /usr. No disk limits
# and no QoS cgroups: a test machine may be small and full.
write_kubelet_config() {
    cat >"$state/node$1/kubelet.yaml" <<-EOT
	apiVersion: kubelet.config.k8s.io/v1beta1
	kind: KubeletConfiguration
	address: $(node_address "$1")
	authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
	authorization: {mode: AlwaysAllow}
	containerRuntimeEndpoint: unix://$containerd_socket
	cgroupDriver: cgroupfs
	cgroupsPerQOS: false
	enforceNodeAllocatable: []
	failSwapOn: false
	failCgroupV1: false
	syncFrequency: 10s
	makeIPTablesUtilChains: false
	localStorageCapacityIsolation: false
	resolvConf: ""
	volumePluginDir: /var/lib/kubelet/volume-plugins
	evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%}
	imageGCHighThresholdPercent: 100
	imageGCLowThresholdPercent: 99
	EOT
    [ ! -s "$state/gates" ] || echo "featureGates: {$(cat "$state/gates")}" >>"$state/node$1/kubelet.yaml"
}

# masqueradeAll: replies from a pod on the client's own node pass kube-proxy even
# without br_netfilter. conntrack 0: keeps the host's connection tracking limits.
write_proxy_config() {
    cat >"$state/node$1/proxy.yaml" <<-EOT
	apiVersion: kubeproxy.config.k8s.io/v1alpha1
	kind: KubeProxyConfiguration
	mode: nftables
	nftables: {masqueradeAll: true}
	clusterCIDR: 10.201.0.0/16
	hostnameOverride: node$1
	conntrack: {maxPerCore: 0, min: 0}
	clientConnection: {kubeconfig: "$state/kubeconfig/proxy-$1"}
	EOT
}

run_containerd() { in_node "$1" containerd --config "$state/node$1/containerd.toml"; }

run_kubelet() {
    in_node "$1" "$(cat "$state/kubelet")" --v=2 --config="$state/node$1/kubelet.yaml" --kubeconfig="$state/kubeconfig/kubelet-$1" \
        --hostname-override="node$1" --node-ip="$(node_address "$1")"
}

run_proxy() { in_node "$1" kube-proxy --config="$state/node$1/proxy.yaml"; }
