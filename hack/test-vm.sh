#!/usr/bin/env bash
# Runs arm64 tests that need an arm64 kernel, in a virtual machine: runc and podman start containers with the GPUs of
# `cdi-gen generate gpu` and the released nvidia-cdi-hook, and tests start processes. qemu-user runs none of these
# (hack/test-arch.sh).
#
#   hack/test-vm.sh
#
# qemu-system-aarch64 emulates the machine without KVM. This needs no root, except to install missing tools. The kernel
# is Debian's with pages of 16 KiB. The initramfs contains runc, podman, a shell and the C library of Debian, the tests,
# and what they use. Debian's packages stay in $IMEX_CACHE. Tests that have not ended after IMEX_VM_SECONDS (1200) fail.
#
# Not tested: containerd, CRI-O and kubelet; pages of 64 KiB (Debian has no such kernel); the real driver; speed; weaker
# memory ordering than this machine's. The GPU inventory's tests with the mock of NVML are missing: in the emulator, they
# take more than ten minutes.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"
# shellcheck source=hack/machine.sh
. hack/machine.sh
[ $# = 0 ] || { usage >&2 && exit 2; }
use_architecture arm64
need_tools qemu-system-aarch64 cpio "$triplet-strip"
scratch=$(mktemp -d)
trap 'end_children; rm -rf "$scratch"' EXIT
vm=$scratch/vm
limit=${IMEX_VM_SECONDS:-1200}

# --- tests ------------------------------------------------------------------

# build COMMAND ARG...: with the settings of hack/test-arch.sh, so that both use the same libraries.
build() {
    with_zig env CARGO_BUILD_TARGET="$target" CARGO_PROFILE_DEV_OPT_LEVEL=1 \
        cargo-zigbuild "$@" --target "$target.$glibc_floor" --locked --quiet --message-format=json-render-diagnostics ||
        die "the tests did not build; cargo's message is above"
}

# add_program FILE [PATH]: puts it into the machine, at PATH or at its path here.
add_program() {
    install -D -m 755 "$1" "$vm${2-$1}"
    "$triplet-strip" --strip-unneeded "$vm${2-$1}"
}

add_tests() {
    local messages=$scratch/messages built=$target_dir/$target/debug file hook
    build test --no-run -p cdi-gen -p nvidia-cdi-hook -p nvml-session -p gpu-inventory \
        --lib --test gpu_container --test runc --test containers >"$messages"
    for file in $(sed -nE 's/.*"executable":"([^"]*)".*/\1/p' "$messages"); do add_program "$file"; done
    # Each line: the directory of a package, and its test program. Other programs have "test":false in their profile.
    sed -nE 's/.*"manifest_path":"([^"]*)\/Cargo.toml".*"profile":\{[^}]*"test":true.*"executable":"([^"]*)".*/\1 \2/p' \
        "$messages" >"$vm/tests"
    [ -s "$vm/tests" ] || die "cargo names no test program that it has built"
    # Files that tests read at their path here.
    git ls-files -z cdi dra-shim/gpu dra-shim/nvml hack/nvml-mock | xargs -0 cp -P --parents -t "$vm$root"

    # What tests build, for hack/vm/cargo and hack/vm/cc.
    build build -p nvml-mock -p mock-cuda >/dev/null
    for file in libnvml_mock.so libmock_cuda.so; do add_program "$built/$file" "/built/$file"; done
    hook=$(hack/hook.sh --arch "$architecture")
    add_program "$hook" /built/nvidia-cdi-hook
    "$zig" cc -target "$triplet.$glibc_floor" -o "$scratch/probe" hack/nvml-mock/cuda/probe.c \
        "$built/libmock_cuda.so" "$built/libnvml_mock.so"
    add_program "$scratch/probe" /built/probe
}

# --- Debian -----------------------------------------------------------------

# add_packages NAME...: unpacks these packages, and the libraries that they depend on, into the machine.
add_packages() {
    local cache=$IMEX_CACHE/image/debs files file missing
    # Gets the package lists, if there are none.
    fetch_package libc6
    files=$(files_with_libraries "$@")
    missing=$(missing_packages "$files")
    if [ -n "$missing" ]; then
        say "downloading $(wc -l <<<"$missing") packages of Debian for $architecture"
        apt_get update >&2
        files=$(files_with_libraries "$@")
        # shellcheck disable=SC2046 # words on purpose
        (cd "$scratch/debs" && apt_get download $(missing_packages "$files") >&2 && mv ./*.deb "$cache")
    fi
    for file in $files; do
        dpkg-deb --fsys-tarfile "$cache/$file" |
            tar -x --keep-directory-symlink -C "$vm" --exclude=./usr/share --exclude=gconv
    done
}

files_with_libraries() {
    apt_get install --no-install-recommends --print-uris "$@" | awk '{print $2}' |
        grep -E "^(lib.*|$(IFS='|' && echo "$*"))_" | grep -v perl
}

# missing_packages FILES: the packages of those files that are not in the cache.
missing_packages() {
    local file
    for file in $1; do [ -f "$IMEX_CACHE/image/debs/$file" ] || echo "${file%%_*}"; done
}

# Sets kernel.
get_kernel() {
    local name=linux-image-arm64-16k
    # Debian 12 has it beside its own kernel.
    [ -n "$(package_file $name)" ] || name=linux-image-6.12-arm64-16k
    fetch_package "$name"
    # That package is empty, and depends on the newest kernel.
    fetch_package "$(dpkg-deb -f "$package" Depends | grep -o 'linux-image-[^ ,]*')"
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$scratch" --wildcards './boot/vmlinuz-*'
    kernel=$(echo "$scratch"/boot/vmlinuz-*)
}

# --- machine ----------------------------------------------------------------

get_cross_tools
mkdir -p "$vm"/{dev,etc,mnt,proc,run,sys,tmp,usr/bin,usr/lib,usr/sbin,var,vm} "$vm$root"
for dir in bin lib sbin; do ln -s "usr/$dir" "$vm/$dir"; done
ln -s ../run "$vm/var/run"
echo root:x:0:0:root:/:/bin/sh >"$vm/etc/passwd"
# podman 5 starts only if it finds netavark.
add_packages busybox-static coreutils dash libc-bin libgcc-s1 runc podman conmon netavark
install -m 755 hack/vm/* "$vm/vm"
add_tests
(cd "$vm" && find . -print0 | cpio --quiet -0 -o -H newc) >"$scratch/initramfs"
get_kernel

say "starting the virtual machine (after $SECONDS s)"
# icount: the machine's clock counts instructions, so no deadline of a test passes earlier because this machine is busy.
timeout "$limit" qemu-system-aarch64 -machine virt -cpu max -smp 2 -m 2048 -icount shift=0,sleep=off -nographic -no-reboot \
    -net none -kernel "$kernel" -initrd "$scratch/initramfs" \
    -append "console=ttyAMA0 quiet panic=-1 rdinit=/vm/init" </dev/null 2>&1 | tr -d '\r' | tee "$scratch/console" ||
    die "the virtual machine failed, or the tests have not ended after $limit s; its output is above"
grep -qx 'vm: all tests passed' "$scratch/console" || die "tests failed in the virtual machine; their output is above"
say "the tests in the virtual machine passed (after $SECONDS s)"
