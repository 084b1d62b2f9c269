#!/usr/bin/env bash
# Collects the state of a cluster with imex-dra for a bug report, with kubectl alone. Reads only.
#
#   hack/bug-report.sh [--namespace NAMESPACE] [NODE...]
#
# NODE...      collects logs and state of the plugin and the IMEX daemon on these nodes; by default, on ten nodes,
#              those with a pod that is not ready first
# NAMESPACE    the chart's namespace (imex-dra)
#
# Writes imex-dra-report-TIME.tar.gz in the current directory: versions; the chart's pods and workloads; nodes;
# ComputeDomains, cliques, claims (which pod has which device), both drivers' ResourceSlices, DeviceClasses;
# events about these; logs of each container before and after its last restart, at most 2000 lines and 1 MiB each;
# from the plugin's pods the records of claims and the GPUs, as cdi-gen prints them.
# It reads no Secrets, no ConfigMaps and no containers' environment. The file contains names of nodes, namespaces
# and pods, and IP addresses.
set -euo pipefail

case ${1-} in
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" && exit 0 ;;
esac
namespace=imex-dra
if [ "${1-}" = --namespace ]; then
    namespace=${2:?usage: hack/bug-report.sh [--namespace NAMESPACE] [NODE...]}
    shift 2
fi
name=imex-dra-report-$(date +%Y%m%dT%H%M%S)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/$name"

k() { timeout 60 kubectl "$@"; }
in_namespace() { k --namespace "$namespace" "$@"; }

# save FILE COMMAND...: writes the command's output and errors, up to 5 MiB. A command that fails does not end this script.
save() {
    local file=$scratch/$name/$1
    shift
    mkdir -p "$(dirname "$file")"
    { printf '$ %s\n' "$*" && "$@" 2>&1; } | head -c 5M >"$file" || echo "(this failed, or is cut off)" >>"$file"
}

# events ARGUMENT...: the last thousand events.
events() { k get events --sort-by=.lastTimestamp "$@" | tail -n 1000; }

# logs POD: saves its containers' logs, from before their last restart, too.
logs() {
    local pod=$1
    save "logs/$pod.log" in_namespace logs "$pod" --all-containers --timestamps --tail=2000 --limit-bytes=1048576
    save "logs/$pod.previous.log" in_namespace logs "$pod" --all-containers --timestamps --tail=2000 --limit-bytes=1048576 --previous
}

k version >"$scratch/version" || { echo "kubectl cannot reach the cluster" >&2 && exit 1; }

save version.txt cat "$scratch/version"
save chart.txt in_namespace get deployments,daemonsets,jobs,pods,leases,networkpolicies,resourcequotas -o wide
save nodes.txt k get nodes -o wide --label-columns nvidia.com/gpu.present,nvidia.com/gpu.clique
save computedomains.yaml k get computedomains --all-namespaces -o yaml
save cliques.yaml k get computedomaincliques --all-namespaces -o yaml
for driver in compute-domain.nvidia.com gpu.nvidia.com; do
    save "slices/$driver.yaml" k get resourceslices --field-selector "spec.driver=$driver" -o yaml
done
save deviceclasses.yaml k get deviceclasses -o yaml
save claims.txt k get resourceclaims --all-namespaces -o 'custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,UID:.metadata.uid,DRIVER:.status.allocation.devices.results[*].driver,POOL:.status.allocation.devices.results[*].pool,DEVICE:.status.allocation.devices.results[*].device,FOR:.status.reservedFor[*].name,DELETED:.metadata.deletionTimestamp'
save events/chart.txt events --namespace "$namespace"
for kind in Node ComputeDomain ResourceClaim; do
    save "events/$kind.txt" events --all-namespaces --field-selector "involvedObject.kind=$kind"
done
save events/pods.txt events --all-namespaces --field-selector reason=FailedPrepareDynamicResources

for pod in $(in_namespace get pods --selector imex-dra-component=controller -o name); do logs "$pod"; done

# Each line: ready (true or false), node, pod.
in_namespace get pods --selector 'imex-dra-component in (kubelet-plugin, imex-daemon)' \
    -o jsonpath='{range .items[*]}{.status.containerStatuses[0].ready}{"\t"}{.spec.nodeName}{"\t"}{.metadata.name}{"\n"}{end}' | sort >"$scratch/pods"
nodes=("$@")
[ ${#nodes[@]} -gt 0 ] || mapfile -t nodes < <(awk -F '\t' '$2 != "" && !seen[$2]++ && ++count <= 10 { print $2 }' "$scratch/pods")
for node in "${nodes[@]}"; do
    for pod in $(awk -F '\t' -v node="$node" '$2 == node { print $3 }' "$scratch/pods"); do
        logs "pod/$pod"
        case $pod in
            *kubelet-plugin*)
                save "claims/$node.txt" in_namespace exec "$pod" -- cdi-gen checkpoint show
                save "gpus/$node.json" in_namespace exec "$pod" -- cdi-gen gpus --driver-root /driver-root --json
                ;;
            *) save "daemons/$node.txt" in_namespace exec "$pod" -- compute-domain-daemon check ;;
        esac
    done
done

tar --create --gzip --file "$name.tar.gz" --directory "$scratch" "$name"
echo "$name.tar.gz"
