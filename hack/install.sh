#!/usr/bin/env bash
# Installs imex-dra on the running cluster (hack/cluster.sh) as an administrator
# would: a driver and the image on every node (hack/gpu-nodes.sh), then the chart.
#
#   hack/install.sh [--mode hostManaged|driverManaged] [OPTION]...    options of helm upgrade --install
#
# hostManaged is the default, as in hack/gpu-nodes.sh.
#
# IMEX_CLUSTER_IMAGE: as for hack/gpu-nodes.sh.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

cluster=hack/cluster.sh
driver_root=/run/nvidia/driver
namespace=imex-dra
image=${IMEX_CLUSTER_IMAGE:-out/imex-dra-image.tar}

mode=hostManaged
if [ "${1-}" = --mode ]; then
    mode=${2-}
    shift $(($# < 2 ? $# : 2))
fi
case $mode in
    hostManaged) gate=true ;;
    driverManaged) gate=false ;;
    *) die "--mode is hostManaged or driverManaged, not '$mode'" ;;
esac

explain() {
    {
        $cluster kubectl get pods -A -o wide
        $cluster kubectl get events -n "$namespace" --sort-by=.lastTimestamp | tail -20
        $cluster kubectl logs -n "$namespace" -l app.kubernetes.io/name=imex-dra --all-containers --prefix --tail=20
    } >&2
    die "the chart's pods did not become ready; their state is above"
}

hack/gpu-nodes.sh --mode "$mode"

# The image's name does not change with its content. This annotation does, so that a
# new image rolls out new pods.
digest=$(sha256sum "$image" | cut -c1-16)

say "installing the chart and waiting until its pods are ready"
$cluster helm upgrade --install imex-dra deployments/helm/imex-dra \
    --namespace "$namespace" --create-namespace --wait --timeout 120s \
    --set featureGates.HostManagedIMEX="$gate" \
    --set nvidiaDriverRoot="$driver_root" \
    --set altProcDevices="$driver_root/proc/devices" \
    --set-string controller.podAnnotations.image="$digest" \
    --set-string kubeletPlugin.podAnnotations.image="$digest" \
    --set-string imexDaemon.podAnnotations.image="$digest" "$@" >/dev/null ||
    explain
