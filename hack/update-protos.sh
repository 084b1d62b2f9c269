#!/usr/bin/env bash
# Refreshes the vendored protocol definitions of dra-kubelet or of nri-plugin.
# Usage: hack/update-protos.sh kubelet [VERSION]      (of the Go module k8s.io/kubelet)
#        hack/update-protos.sh nri [VERSION]          (of the Go module github.com/containerd/nri)
# VERSION defaults to the one in proto/README.md, so a second run changes nothing.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1-} in
    kubelet)
        module=k8s.io/kubelet crate=kubelet
        # SOURCE=TARGET, in the module and below proto/
        files=()
        for file in pluginregistration/v1 dra/v1 dra/v1beta1 dra-health/v1alpha1; do
            files+=("pkg/apis/$file/api.proto=$file/api.proto")
        done
        ;;
    nri)
        module=github.com/containerd/nri crate=nri
        files=(pkg/api/api.proto=api.proto)
        ;;
    *) die "unknown argument '${1-}'; usage: hack/update-protos.sh kubelet|nri [VERSION]" ;;
esac
cd "$root/dra-shim/$crate/proto"

pinned=$(sed -n "s|.*\`$module\` \(v[0-9.]*\).*|\1|p" README.md)
version=${2:-$pinned}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "'$version' is not a version of $module; an example is $pinned"
need_tools go

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
source=$(cd "$scratch" && go mod init protos 2>/dev/null && go mod download -json "$module@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
[[ -d $source ]] || die "cannot download $module@$version; check that the version exists and the Go module proxy is reachable"

for file in "${files[@]}"; do
    install -D -m 0644 "$source/${file%%=*}" "${file##*=}"
done
sed -i "s|\(\`$module\`\) v[0-9.]*|\1 $version|" README.md
echo "dra-shim/$crate/proto is at $module $version"
