#!/usr/bin/env bash
# Runs the unit tests and doc examples of library crates as programs of another CPU architecture, in an emulator
# that is registered with the kernel (binfmt_misc) meanwhile.
#
#   hack/test-arch.sh ARCH [PACKAGE...]    arm64 or amd64; all library crates without PACKAGE
#
# Fails where nothing can be built for ARCH or the emulator cannot be had. IMEX_EMULATION=optional: then says
# how many tests were not run, and why, and passes.
#
# What emulation cannot show: speed and timing, pages of 64 KiB (Grace kernels have them; qemu-user has this
# machine's), memory ordering weaker than this machine's, system calls that qemu-user does not know (openat2,
# pidfd_getfd), and the real NVML.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"
# shellcheck source=hack/machine.sh
. hack/machine.sh
# shellcheck source=hack/emulator.sh
. hack/emulator.sh
[ $# -ge 1 ] || { usage >&2 && exit 2; }
use_architecture "$1"
shift
packages=("$@")
if [ ${#packages[@]} = 0 ]; then
    packages=(dra-common dra-claim durable-file dra-checkpoint imex-cdi nvml-clique nri-plugin dra-kubelet host-doctor
        compute-domain-api compute-domain-core compute-domain-node daemon-runtime)
fi
features=()
[[ " ${packages[*]} " != *" imex-cdi "* ]] || features=(--features "imex-cdi/oci imex-cdi/nri")

# Those of this machine, which are built already where this is of use: the same tests.
not_run() {
    local tests
    [ "${IMEX_EMULATION-}" = optional ] || die "$1"
    tests=$(cargo test --quiet --locked "${packages[@]/#/--package=}" "${features[@]}" -- --list 2>/dev/null | grep -c ': test$') ||
        tests="An unknown number of"
    say "$tests $architecture tests of ${packages[*]} were not run: $1"
    exit 0
}

has_target || not_run "$why"
run=(cargo test)
skipped=()
if ! is_native; then
    scratch=$(mktemp -d)
    # A test starts itself as another user.
    chmod 755 "$scratch"
    trap 'end_children; unregister_emulator "$(emulator_of_script)"; rm -rf "$scratch"' EXIT
    register_emulator "$(emulator_of_script)" || not_run "$why"
    get_cross_tools
    make_sysroot "$scratch/sysroot"
    # Tests have their mock of NVML built by cargo, too.
    export CARGO_BUILD_TARGET=$target QEMU_LD_PREFIX=$scratch/sysroot
    # Tests compile C, too.
    printf '#!/bin/sh\nexec "%s" cc -target %s.%s "$@"\n' "$zig" "$triplet" "$glibc_floor" >"$scratch/cc"
    chmod 755 "$scratch/cc"
    export IMEX_CC=$scratch/cc
    # In an emulator, optimized tests save more than the optimizer takes.
    export CARGO_PROFILE_DEV_OPT_LEVEL=1
    # What qemu-user cannot do.
    skipped=(
        # It makes a vfork a fork, so posix_spawn does not learn that the program is not there.
        --skip command::tests::a_missing_program_fails_to_start
        # A runtime starts its plugins without an environment, so the emulator does not find the loader.
        --skip go_runtime::a_plugin_that_the_runtime_starts_uses_its_connection
    )
    run=(with_zig cargo-zigbuild test --target "$target.$glibc_floor")
fi
"${run[@]}" --locked --no-fail-fast "${packages[@]/#/--package=}" "${features[@]}" -- "${skipped[@]}"
