#!/usr/bin/env bash
# Builds the programs of another Kubernetes than build.sh's, from the pinned modules of
# other-kubernetes/MINOR/, once, into $IMEX_CACHE/cluster/kubernetes-MINOR-<hash of the pins>/bin,
# with build.sh's kubectl, containerd, etcd, CNI plugins and Helm beside them, and prints that directory:
# the tests use options of kubectl that 1.34's does not have.
#
#   hack/cluster/other-kubernetes.sh 1.34
#
# It is for runs by hand (IMEX_CLUSTER_KUBERNETES in hack/cluster.sh), not for CI. It shares no code
# with build.sh, because the hash of that file is the key of the cluster's programs: a change there
# makes everybody build them again. It does share build.sh's lock, under which that script also
# removes the scratch directories of killed builds.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/lib.sh
. "$here/../lib.sh"

known=$(cd "$here/other-kubernetes" && echo *)
minor=${1-}
module=$here/other-kubernetes/$minor
[[ -n $minor && -d $module ]] || die "which Kubernetes? There are: $known"
version=$(awk '$1 == "require" && $2 == "k8s.io/kubernetes" {print $3}' "$module/go.mod")
programs=$("$here/build.sh")/bin
out=$IMEX_CACHE/cluster/kubernetes-$minor-$(cat "$here/other-kubernetes.sh" "$module"/go.mod "$module"/go.sum | cat - <(echo "$programs") | sha256sum | cut -c1-16)

build() {
    # -s, -w, -dwarf=false: no debug information, an eighth of the time.
    local free_mib package program ldflags="-s -w"
    need_tools go git
    free_mib=$(df --output=avail -m "$IMEX_CACHE/cluster" | tail -1)
    [ "$free_mib" -ge 9000 ] || die "building Kubernetes $version needs 9000 MiB in $IMEX_CACHE and $free_mib are free; free some, or set IMEX_CACHE to a directory on a larger disk"
    scratch=$(mktemp -d "$IMEX_CACHE/cluster/scratch.XXXXXX")
    trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        ldflags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor#1.}"
    done
    say "building Kubernetes $version into $out: once, 12 minutes on 2 cores"
    mkdir -p "$scratch/done/bin"
    # In one call, so that one program is linked while others compile.
    GOTOOLCHAIN=local CGO_ENABLED=0 GOMODCACHE=$scratch/mod GOCACHE=$scratch/cache GOTMPDIR=$scratch \
        go -C "$module" build -mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags "$ldflags" \
        -o "$scratch/done/bin/" k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kube-proxy,kubelet} ||
        die "Kubernetes $version did not build; the message is above. Go $(go env GOVERSION) is installed"
    for program in "$programs"/*; do
        [ -e "$scratch/done/bin/$(basename "$program")" ] || ln "$program" "$scratch/done/bin/"
    done
    mv "$scratch/done" "$out"
}

exec 9>"$IMEX_CACHE/cluster/lock"
flock 9
if [ ! -d "$out" ]; then build; fi
echo "$out/bin"
