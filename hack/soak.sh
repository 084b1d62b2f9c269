#!/usr/bin/env bash
# Runs what takes too long for hack/test.sh: processes killed at random moments
# on a real disk, and reopened; then ten minutes of fuzzing.
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
say "== checkpoint: fuzzed for 300 s"
hack/fuzz.sh checkpoint 300
for target in device_list driver_files spec config; do
    say "== $target: fuzzed for 75 s"
    hack/fuzz.sh "$target" 75
done
say "the soak found nothing"
