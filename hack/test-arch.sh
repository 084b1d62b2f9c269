#!/usr/bin/env bash
# Runs the unit tests and doc examples of library crates as programs of another CPU architecture, in an emulator.
# Meanwhile, the emulator is registered with the kernel (binfmt_misc).
#
#   hack/test-arch.sh ARCH [PACKAGE...]    arm64 or amd64; all library crates without PACKAGE
#
# Fails if this machine cannot build for ARCH or has no emulator. With IMEX_EMULATION=optional it then prints how
# many tests were not run, and why, and passes.
#
# Emulation does not test: speed and timing, pages of 64 KiB (Grace kernels have them; qemu-user has this machine's
# page size), weaker memory ordering than this machine's, system calls missing in qemu-user (openat2, pidfd_getfd),
# and the real NVML. hack/test-vm.sh tests what needs an arm64 kernel.
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
    packages=(dra-common dra-claim durable-file dra-checkpoint imex-cdi nvml-session nvml-clique nvidia-driver-files nri-plugin dra-kubelet host-doctor
        compute-domain-api compute-domain-core compute-domain-node gpu-api daemon-runtime)
fi
features=()
[[ " ${packages[*]} " != *" imex-cdi "* ]] || features=(--features "imex-cdi/oci imex-cdi/nri")

# Counts the tests of this machine's architecture: they are the same, and already built.
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
    # A test runs its own program as another user.
    chmod 755 "$scratch"
    trap 'end_children; unregister_emulator "$(emulator_of_script)"; rm -rf "$scratch"' EXIT
    register_emulator "$(emulator_of_script)" || not_run "$why"
    get_cross_tools
    make_sysroot "$scratch/sysroot"
    # Tests build the mock of NVML with cargo.
    export CARGO_BUILD_TARGET=$target QEMU_LD_PREFIX=$scratch/sysroot
    # Tests also compile C.
    printf '#!/bin/sh\nexec "%s" cc -target %s.%s "$@"\n' "$zig" "$triplet" "$glibc_floor" >"$scratch/cc"
    chmod 755 "$scratch/cc"
    export IMEX_CC=$scratch/cc
    # In an emulator, optimization saves more time than it takes.
    export CARGO_PROFILE_DEV_OPT_LEVEL=1
    # qemu-user cannot run these.
    skipped=(
        # It turns vfork into fork, so posix_spawn does not notice that the program is missing.
        --skip command::tests::a_missing_program_fails_to_start
        # A process that qemu forks while it has other threads may wait forever for a lock of one of them.
        --skip process::tests
        # A runtime starts plugins without an environment, so the emulator does not find the loader.
        --skip go_runtime::a_plugin_that_the_runtime_starts_uses_its_connection
    )
    run=(with_zig cargo-zigbuild test --target "$target.$glibc_floor")
fi
"${run[@]}" --locked --no-fail-fast "${packages[@]/#/--package=}" "${features[@]}" -- "${skipped[@]}"
