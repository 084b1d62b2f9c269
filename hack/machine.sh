# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with the scripts that source it
# Builds for another CPU architecture: an architecture's names, Rust target, zig as
# linker, Debian packages. Sourced after hack/lib.sh.

architectures="arm64 amd64"
# The oldest glibc that released programs run on.
glibc_floor=2.28
ziglang_version=0.15.2
cargo_zigbuild_version=0.24.1
# Writes each program's crates into the program, for image scanners.
cargo_auditable_version=0.7.7

# use_architecture ARCH: sets architecture (Debian's and OCI's name), machine (Rust's and the kernel's name),
# triplet (Debian's library directory), target (Rust's), loader (its path), elf_machine (as readelf prints it),
# page (the largest page size of its kernels, in bytes) and emulator.
use_architecture() {
    architecture=$1
    case $architecture in
        arm64) machine=aarch64 loader=/lib/ld-linux-aarch64.so.1 elf_machine=AArch64 page=65536 ;;
        amd64) machine=x86_64 loader=/lib64/ld-linux-x86-64.so.2 elf_machine="Advanced Micro Devices X86-64" page=4096 ;;
        *) die "unknown architecture '$architecture': --arch is ${2:-arm64 or amd64}" ;;
    esac
    triplet=$machine-linux-gnu
    target=$machine-unknown-linux-gnu
    emulator=qemu-$machine-static
}

# The architecture of this machine.
native_architecture() {
    case $(uname -m) in
        aarch64) echo arm64 ;;
        x86_64) echo amd64 ;;
        *) die "this machine is $(uname -m); imex-dra supports arm64 and amd64" ;;
    esac
}

is_native() { [ "$architecture" = "$(native_architecture)" ]; }

# --- building ---------------------------------------------------------------

# If this machine cannot build for the architecture, sets why and fails.
has_target() {
    local libraries output
    need_tools cargo cc
    libraries=$(rustc --print target-libdir --target "$target")
    if ! compgen -G "$libraries/libstd-*.rlib" >/dev/null; then
        why="Rust's standard library for $target is not installed, and rustup, which installs it, is missing: see https://rustup.rs"
        if command -v rustup >/dev/null 2>&1; then
            say "installing Rust's standard library for $target"
            why="Rust's standard library for $target is not in $libraries, although rustup has installed it; run: rustup target remove $target && rustup target add $target"
            output=$(rustup --quiet target add "$target" 2>&1) ||
                why="rustup could not install Rust's standard library for $target: $(sed -n 's/^error: //p' <<<"$output" | head -1)"
        fi
    fi
    compgen -G "$libraries/libstd-*.rlib" >/dev/null
}

need_target() { has_target || die "$why"; }

# need_cache DIR: creates it.
need_cache() {
    if ! mkdir -p "$1" 2>/dev/null || [ ! -w "$1" ]; then die "$1 is not writable; set IMEX_CACHE to a writable directory"; fi
}

# Sets zig; installs it once, atomically.
get_zig() {
    local tools=$IMEX_CACHE/tools
    zig=$tools/ziglang-$ziglang_version/zig
    [ ! -x "$zig" ] || return 0
    need_cache "$tools"
    say "installing ziglang $ziglang_version into $tools (once)"
    need_tools python3
    python3 -m venv "$scratch/venv" >&2 || die "python3 -m venv failed; as root run: apt-get install python3-venv"
    "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check "ziglang==$ziglang_version" >&2 ||
        die "pip could not install ziglang $ziglang_version; its message is above"
    install_dir "$(echo "$scratch"/venv/lib/python3*/site-packages/ziglang)" "$tools/ziglang-$ziglang_version"
}

# get_cargo_tool NAME VERSION: prepends its directory to tools_path; installs it
# once, atomically.
tools_path=
get_cargo_tool() {
    local to=$IMEX_CACHE/tools/$1-$2
    if [ ! -x "$to/bin/$1" ]; then
        need_cache "$IMEX_CACHE/tools"
        say "installing $1 $2 into $IMEX_CACHE/tools (once, one or two minutes)"
        cargo install --quiet --locked --root "$scratch/$1" "$1@$2" >&2 ||
            die "cargo could not install $1 $2; its message is above"
        install_dir "$scratch/$1" "$to"
    fi
    tools_path=$to/bin:$tools_path
}

# install_dir FROM TO: replaces TO by a rename; FROM may be on another file system.
install_dir() {
    rm -rf "$2" "$2.new.$$"
    cp -a "$1" "$2.new.$$"
    mv "$2.new.$$" "$2"
}

# with_zig COMMAND...: runs cargo with zig as linker and C compiler. Builds for $target.$glibc_floor need no newer
# glibc. Results are in $target_dir/$target.
with_zig() {
    (cd "$root" && CARGO_ZIGBUILD_ZIG_PATH=$zig PATH=$tools_path$PATH "$@")
}

# dev_cargo ARG...: makes a dev build for the architecture in programs_dir; a native one needs no zig.
dev_cargo() {
    if is_native; then
        (cd "$root" && cargo build "$@")
    else
        get_cross_tools
        with_zig cargo zigbuild --target "$target.$glibc_floor" "$@"
    fi
}

# The directory of dev_cargo's results.
programs_dir() { if is_native; then echo "$target_dir/debug"; else echo "$target_dir/$target/debug"; fi; }

# Installs the tools of with_zig.
get_cross_tools() {
    need_target
    get_zig
    get_cargo_tool cargo-zigbuild "$cargo_zigbuild_version"
}

# check_elf FILE: fails unless FILE is for the architecture and its segments fit all page sizes of the kernels.
check_elf() {
    local is alignment
    is=$(readelf -h "$1" 2>/dev/null | sed -n 's/^ *Machine: *//p')
    [ "$is" = "$elf_machine" ] || die "$1 is for ${is:-no machine: it is not ELF}, not for $elf_machine"
    for alignment in $(readelf -lW "$1" | awk '$1 == "LOAD" {print $NF}'); do
        ((alignment >= page)) || die "$1 has segments aligned to $alignment, but kernels for $architecture may have pages of $page bytes"
    done
}

# --- Debian's packages ------------------------------------------------------

# apt-get for the architecture with separate package lists: it neither reads nor changes this machine's apt, which may
# be for another architecture.
apt_get() {
    local apt=$IMEX_CACHE/image/apt/$architecture
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    apt-get -qq -o APT::Sandbox::User=root -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
        -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" "$@"
}

# fetch_package NAME: sets package to its .deb in the cache, at the version in the package lists. Updates the lists
# if they lack the package or the mirror has a newer version.
fetch_package() {
    local cache=$IMEX_CACHE/image/debs file
    if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-deb >/dev/null 2>&1; then
        die "apt-get or dpkg-deb is missing; run this on Debian or in a Debian container"
    fi
    mkdir -p "$cache" "$scratch/debs"
    file=$(package_file "$1")
    if [ -z "$file" ] || [ ! -f "$cache/$file" ]; then
        say "downloading Debian's $1 for $architecture"
        if [ -z "$file" ] || ! (cd "$scratch/debs" && apt_get download "$1") 2>"$scratch/apt.log"; then
            apt_get update >/dev/null 2>"$scratch/apt.log" ||
                die "no package lists for $architecture: $(tail -1 "$scratch/apt.log"). Ubuntu has arm64 and amd64 on different servers: on Ubuntu, build on a machine of the architecture"
            (cd "$scratch/debs" && apt_get download "$1") 2>"$scratch/apt.log" ||
                die "apt-get download $1 failed for $architecture: $(tail -1 "$scratch/apt.log")"
            file=$(package_file "$1")
        fi
        mv "$scratch/debs/$file" "$cache/$file"
    fi
    package=$cache/$file
}

# The file name to which apt would download NAME, or nothing.
package_file() { { apt_get download --print-uris "$1" 2>/dev/null || true; } | awk 'NR == 1 {print $2}'; }

# make_sysroot DIR: unpacks the loader and the C library for emulated programs with QEMU_LD_PREFIX=DIR.
make_sysroot() {
    local name
    for name in libc6 libgcc-s1; do
        fetch_package "$name"
        dpkg-deb -x "$package" "$1"
    done
}
