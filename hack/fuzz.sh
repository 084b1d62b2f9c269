#!/usr/bin/env bash
# Fuzzes the properties in hack/fuzz/checks with libFuzzer, on stable Rust.
#
#   hack/fuzz.sh TARGET [SECONDS]   fuzzes for SECONDS (60); if an input violates
#                                   a property, prints its path and fails
#   hack/fuzz.sh --keep TARGET      adds inputs of earlier runs to hack/fuzz/corpus
#                                   if they reach code that the corpus does not
#
# TARGET is a file in hack/fuzz/targets. Runs keep their inputs in target/fuzz.
# `cargo test -p fuzz-checks`, an ordinary test, replays the corpus.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root/hack/fuzz"

usage="usage: hack/fuzz.sh TARGET [SECONDS] | hack/fuzz.sh --keep TARGET"
keep=
if [ "${1-}" = --keep ]; then
    keep=1
    shift
fi
target=${1-}
seconds=${2:-60}
[ -f "targets/$target.rs" ] || die "no target ${target:-given}; there are: $(basename -s .rs targets/*.rs | xargs); $usage"
[[ $seconds =~ ^[0-9]+$ ]] || die "$seconds is not a number of seconds; $usage"
need_tools cargo cc g++

out=$target_dir/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
found=$out/corpus/$target
seeds=$root/hack/fuzz/corpus/$target
mkdir -p "$found" "$out/findings"

# The flags of cargo-fuzz without the sanitizer: that needs nightly, and the fuzzed
# code has no unsafe. --target, although it is the host's, keeps these flags away
# from build scripts.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
    cargo build --quiet --locked --release --target "$host" --target-dir "$out" --bin "$target"
fuzzer=$out/$host/release/$target

if [ -n "$keep" ]; then
    # Counts only reached code, and only short inputs: otherwise the corpus would be thousands of files.
    "$fuzzer" -set_cover_merge=1 -use_counters=0 -use_cmp=0 -max_len=1024 \
        -artifact_prefix="$out/findings/$target-" "$seeds" "$found"
else
    "$fuzzer" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 \
        -dict="$root/hack/fuzz/$target.dict" -artifact_prefix="$out/findings/$target-" \
        -print_final_stats=1 "$found" "$seeds"
fi
