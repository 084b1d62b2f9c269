#!/usr/bin/env bash
# Checks the unit files of systemd as systemd reads them, on a host that has nothing but their programs.
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
# The targets that every service depends on.
cp -r /usr/lib/systemd "$host/usr/lib/"
mapfile -t units < <(git ls-files '*.service')
[ ${#units[@]} -gt 0 ] || die "no unit file is in the repository"
failed=0
for unit in "${units[@]}"; do
    program=$(basename "$unit" .service)
    install -m 755 /bin/true "$host/usr/local/bin/$program"
    cp "$unit" "$host/etc/systemd/system/"
    # It also succeeds with words about keys and values that it does not know.
    said=$(systemd-analyze verify --man=no --root="$host" "$host/etc/systemd/system/$program.service" 2>&1) || failed=1
    [ -z "$said" ] || { say "$unit: $said" && failed=1; }
done
[ $failed = 0 ] || die "a unit file is not as systemd wants it; see above"
say "${#units[@]} unit files are as systemd wants them"
