#!/usr/bin/env bash
# Builds the programs of the test cluster from pinned Go modules, once, into
# $IMEX_CACHE/cluster/<hash of the pins>/bin, and prints that directory.
#
# A build is made in a scratch directory beside the result and renamed into
# place under a lock, so a result that exists is complete, and two builders
# never meet. Module and build caches live in the scratch directory and go
# with it: they need 7 GB while the result needs 0.7.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/lib.sh
. "$here/../lib.sh"

need_disk_mib=9000
kubernetes_version=$(awk '$2 == "k8s.io/kubernetes" {print $3} $1 == "k8s.io/kubernetes" {print $2}' "$here/programs/kubernetes/go.mod" | head -1)

pins() { (cd "$here" && cat build.sh programs/*/go.mod programs/*/go.sum | sha256sum | cut -c1-16); }

out=$IMEX_CACHE/cluster/$(pins)
if [ -d "$out" ]; then
    echo "$out"
    exit 0
fi

need_tools go git
mkdir -p "$IMEX_CACHE/cluster"
exec 9>"$IMEX_CACHE/cluster/lock"
flock 9
if [ -d "$out" ]; then # built while we waited for the lock
    echo "$out"
    exit 0
fi

free_mib=$(df --output=avail -m "$IMEX_CACHE/cluster" | tail -1)
if [ "$free_mib" -lt $need_disk_mib ]; then
    die "building the cluster's programs needs $need_disk_mib MiB in $IMEX_CACHE and $free_mib are free; free some, or set IMEX_CACHE to a directory on a larger disk"
fi

# What a killed build left behind is nobody's: we hold the lock.
for left in "$IMEX_CACHE"/cluster/scratch.*; do
    [ -e "$left" ] || continue
    chmod -R u+w "$left"
    rm -rf "$left"
done
scratch=$(mktemp -d "$IMEX_CACHE/cluster/scratch.XXXXXX")
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"

export GOTOOLCHAIN=local GOFLAGS="-mod=readonly -trimpath -buildvcs=false" CGO_ENABLED=0
export GOMODCACHE=$scratch/mod GOCACHE=$scratch/cache GOTMPDIR=$scratch
# -s, -w, -dwarf=false: no debug information, an eighth of the time.
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    ldflags+=" -X $package.gitVersion=$kubernetes_version -X $package.gitMajor=1 -X $package.gitMinor=$(echo "$kubernetes_version" | cut -d. -f2)"
done

say "building the cluster's programs (Kubernetes $kubernetes_version) into $out: once, 10 minutes on 2 cores"
# build MODULE PACKAGE...: all of a module at once, so that one program is linked while others compile. Each is
# called as the last part of its package.
build() {
    local module=$1
    shift
    say "  $module (after $((SECONDS / 60)) min)"
    (cd "$here/programs/$module" && go build -gcflags=all=-dwarf=false -ldflags "$ldflags" -o "$scratch/bin/" "$@") ||
        die "$module did not build; the message is above. Go $(go env GOVERSION) is installed, hack/cluster/programs/$module/go.mod says what it needs"
}
build kubernetes k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kube-proxy,kubelet,kubectl}
build etcd go.etcd.io/etcd/server/v3
mv "$scratch/bin/server" "$scratch/bin/etcd"
build containerd github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr}
build cni github.com/containernetworking/plugins/plugins/{main/bridge,main/loopback,ipam/host-local}
build helm helm.sh/helm/v4/cmd/helm

mv "$scratch/bin" "$scratch/result"
mkdir "$scratch/done" && mv "$scratch/result" "$scratch/done/bin"
mv "$scratch/done" "$out"
echo "$out"
