#!/usr/bin/env bash
# Builds an older kubelet from the pinned modules of old-kubelet/, once, into
# $IMEX_CACHE/cluster/old-kubelet-<hash of the pins>/bin, and prints that directory.
#
# It is for a run by hand (IMEX_CLUSTER_KUBELET in hack/cluster.sh), not for CI. It
# shares no code with build.sh, because the hash of that file is the key of the cluster's
# programs: a change there makes everybody build them again. It does share build.sh's
# lock, under which that script also removes the scratch directories of killed builds.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/lib.sh
. "$here/../lib.sh"

version=$(awk '$1 == "require" && $2 == "k8s.io/kubernetes" {print $3}' "$here/old-kubelet/go.mod")
out=$IMEX_CACHE/cluster/old-kubelet-$(cd "$here" && cat old-kubelet.sh old-kubelet/go.mod old-kubelet/go.sum | sha256sum | cut -c1-16)

build() {
    local free_mib minor package ldflags="-s -w"
    need_tools go git
    free_mib=$(df --output=avail -m "$IMEX_CACHE/cluster" | tail -1)
    [ "$free_mib" -ge 6000 ] || die "building kubelet $version needs 6000 MiB in $IMEX_CACHE and $free_mib are free; free some, or set IMEX_CACHE to a directory on a larger disk"
    scratch=$(mktemp -d "$IMEX_CACHE/cluster/scratch.XXXXXX")
    trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
    minor=$(cut -d. -f2 <<<"$version")
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        ldflags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
    done
    say "building kubelet $version into $out: once, 6 minutes on 2 cores"
    GOTOOLCHAIN=local CGO_ENABLED=0 GOMODCACHE=$scratch/mod GOCACHE=$scratch/cache GOTMPDIR=$scratch \
        go -C "$here/old-kubelet" build -mod=readonly -trimpath -buildvcs=false -ldflags "$ldflags" \
        -o "$scratch/done/bin/kubelet" k8s.io/kubernetes/cmd/kubelet ||
        die "kubelet $version did not build; the message is above. Go $(go env GOVERSION) is installed"
    mv "$scratch/done" "$out"
}

mkdir -p "$IMEX_CACHE/cluster"
exec 9>"$IMEX_CACHE/cluster/lock"
flock 9
if [ ! -d "$out" ]; then build; fi
echo "$out/bin"
