#!/usr/bin/env bash
# Checks the systemd unit files with systemd-analyze, in a root that has only their programs.
#
#   hack/units.sh
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

need_tools systemd-analyze
host=$(mktemp -d)
trap 'rm -rf "$host"' EXIT
mkdir -p "$host/etc/systemd/system" "$host/usr/local/bin" "$host/usr/lib"
# Has the targets that every service depends on.
cp -r /usr/lib/systemd "$host/usr/lib/"
mapfile -t units < <(git ls-files '*.service')
[ ${#units[@]} -gt 0 ] || die "no unit file is in the repository"
failed=0
for unit in "${units[@]}"; do
    program=$(basename "$unit" .service)
    install -m 755 /bin/true "$host/usr/local/bin/$program"
    cp "$unit" "$host/etc/systemd/system/"
    # For unknown keys and values it prints warnings and succeeds.
    said=$(systemd-analyze verify --man=no --root="$host" "$host/etc/systemd/system/$program.service" 2>&1) || failed=1
    [ -z "$said" ] || { say "$unit: $said" && failed=1; }
done
[ $failed = 0 ] || die "systemd rejects a unit file; see above"
say "systemd accepts all ${#units[@]} unit files"
