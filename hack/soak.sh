#!/usr/bin/env bash
# Runs the tests that take too long for hack/test.sh: kills processes at random
# moments on a real disk and reopens their files; then ten minutes of fuzzing.
#
#   hack/soak.sh              300 kills
#   SOAK_ROUNDS=N hack/soak.sh
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

export SOAK_ROUNDS=${SOAK_ROUNDS:-300}
case $SOAK_ROUNDS in
    *[!0-9]* | 0*) die "SOAK_ROUNDS=$SOAK_ROUNDS is not a number of rounds; leave it out for 300" ;;
esac
[ $# = 0 ] || die "unknown argument $1; usage: [SOAK_ROUNDS=N] hack/soak.sh"

need_tools cargo cc g++
say "== checkpoint: $SOAK_ROUNDS kills"
cargo test --quiet --locked -p dra-checkpoint --test soak -- --ignored --nocapture
say "== checkpoint: fuzzing for 300 s"
hack/fuzz.sh checkpoint 300
for target in device_list driver_files ld_cache spec config; do
    say "== $target: fuzzing for 75 s"
    hack/fuzz.sh "$target" 75
done
say "all soak tests passed"
