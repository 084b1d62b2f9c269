#!/usr/bin/env bash
# Builds an older kubelet from the pinned modules of old-kubelet/, once, into
# $IMEX_CACHE/cluster/old-kubelet-<hash of the pins>/bin, and prints that directory.
#
# Beside programs/, whose hash stays as it is: the older kubelet is for a run by
# hand (IMEX_CLUSTER_KUBELET in hack/cluster.sh), not for CI. A build is made in a
# scratch directory and renamed into place under the lock of build.sh, which also
# removes what a killed build left.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/lib.sh
. "$here/../lib.sh"

need_disk_mib=6000
version=$(awk '$1 == "require" && $2 == "k8s.io/kubernetes" {print $3}' "$here/old-kubelet/go.mod")
out=$IMEX_CACHE/cluster/old-kubelet-$(cd "$here" && cat old-kubelet.sh old-kubelet/go.mod old-kubelet/go.sum | sha256sum | cut -c1-16)
if [ -d "$out" ]; then
    echo "$out/bin"
    exit 0
fi

need_tools go git
mkdir -p "$IMEX_CACHE/cluster"
exec 9>"$IMEX_CACHE/cluster/lock"
flock 9
if [ -d "$out" ]; then # built while we waited for the lock
    echo "$out/bin"
    exit 0
fi
free_mib=$(df --output=avail -m "$IMEX_CACHE/cluster" | tail -1)
if [ "$free_mib" -lt $need_disk_mib ]; then
    die "building kubelet $version needs $need_disk_mib MiB in $IMEX_CACHE and $free_mib are free; free some, or set IMEX_CACHE to a directory on a larger disk"
fi

scratch=$(mktemp -d "$IMEX_CACHE/cluster/scratch.XXXXXX")
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
export GOTOOLCHAIN=local GOFLAGS="-mod=readonly -trimpath -buildvcs=false" CGO_ENABLED=0
export GOMODCACHE=$scratch/mod GOCACHE=$scratch/cache GOTMPDIR=$scratch
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    ldflags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$(echo "$version" | cut -d. -f2)"
done
say "building kubelet $version into $out: once, 6 minutes on 2 cores"
(cd "$here/old-kubelet" && go build -ldflags "$ldflags" -o "$scratch/done/bin/kubelet" k8s.io/kubernetes/cmd/kubelet) ||
    die "kubelet $version did not build; the message is above. Go $(go env GOVERSION) is installed"
mv "$scratch/done" "$out"
echo "$out/bin"
