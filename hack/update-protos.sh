#!/usr/bin/env bash
# Refreshes the vendored kubelet protocol definitions of dra-kubelet.
# Usage: hack/update-protos.sh [VERSION]      (a version of the Go module k8s.io/kubelet)
# Without VERSION it takes the one that proto/README.md names, so a second run changes nothing.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root/dra-shim/kubelet/proto"

# shellcheck disable=SC2016 # the backticks are Markdown's
pinned=$(sed -n 's/.*`k8s\.io\/kubelet` \(v[0-9.]*\).*/\1/p' README.md)
version=${1:-$pinned}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "'$version' is no version of k8s.io/kubelet: give one such as v0.36.3"
need_tools go

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
module=$(cd "$scratch" && go mod init protos 2>/dev/null && go mod download -json "k8s.io/kubelet@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
[[ -d $module ]] || die "k8s.io/kubelet@$version could not be downloaded: is that version released, and is the Go module proxy reachable?"

for file in pluginregistration/v1 dra/v1 dra/v1beta1 dra-health/v1alpha1; do
    install -D -m 0644 "$module/pkg/apis/$file/api.proto" "$file/api.proto"
done
sed -i "s/\(\`k8s\.io\/kubelet\`\) v[0-9.]*/\1 $version/" README.md
echo "proto/ is at k8s.io/kubelet $version"
