#!/usr/bin/env bash
# Installs imex-dra on the running cluster of hack/cluster.sh, as an operator
# would: a driver on every node, the image, the chart.
#
#   hack/install.sh [OPTION]...    options as of helm upgrade --install
#
# The driver is the mock, see hack/mock-node.sh.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

cluster=hack/cluster.sh
driver_root=/run/nvidia/driver
namespace=imex-dra
image=out/imex-dra-image.tar

explain() {
    {
        $cluster kubectl get pods -A -o wide
        $cluster kubectl get events -n "$namespace" --sort-by=.lastTimestamp | tail -20
        $cluster kubectl logs -n "$namespace" -l app.kubernetes.io/name=imex-dra --all-containers --prefix --tail=20
    } >&2
    die "the chart's pods did not become ready; their state is above"
}

need_tools cargo cc
nodes=$($cluster kubectl get nodes -o name | sed 's,^node/node,,')
say "building the mock NVML and the image"
cargo build --quiet --locked -p nvml-mock
hack/image.sh --profile dev --out "$image"

for node in $nodes; do
    say "node$node: laying out a mock driver at $driver_root"
    hack/mock-node.sh "$node" >/dev/null
    $cluster kubectl label --overwrite "node/node$node" nvidia.com/gpu.present=true >/dev/null
done

say "loading the image on every node"
$cluster load "$image"

# The image's name does not change with its content; an annotation that does
# makes the pods new when the image is.
digest=$(sha256sum "$image" | cut -c1-16)

say "installing the chart and waiting until its pods are ready"
$cluster helm upgrade --install imex-dra deployments/helm/imex-dra \
    --namespace "$namespace" --create-namespace --wait --timeout 120s \
    --set featureGates.HostManagedIMEX=true \
    --set nvidiaDriverRoot="$driver_root" \
    --set altProcDevices="$driver_root/proc-devices" \
    --set-string controller.podAnnotations.image="$digest" \
    --set-string kubeletPlugin.podAnnotations.image="$digest" "$@" >/dev/null ||
    explain
