#!/usr/bin/env bash
# Builds the programs and packs them with a small glibc base into one OCI
# image archive, without docker and without a registry:
#
#   hack/image.sh [--profile dev|release] [--out FILE] [--twice]
#
# --twice: then builds all of it again, from a copy of the sources in another
# place and from nothing, and fails unless the image is the same one.
#
# A release image comes with a list of what is in it, FILE with .spdx.json for
# .tar. The archive's path is printed on stdout; `ctr -n k8s.io images import FILE`
# brings it in as localhost/imex-dra:v<the chart's appVersion>. The same
# programs and the same Debian packages give the same image digest.
# deployments/container/README.md says why the base is what it is.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/lib.sh
. "$here/lib.sh"
umask 022
export LC_ALL=C

programs="compute-domain-controller compute-domain-kubelet-plugin compute-domain-daemon cdi-gen"
# The newest glibc whose symbols a released program may need.
glibc_floor=2.28
ziglang_version=0.15.2
cargo_zigbuild_version=0.24.1
# Writes into each program which crates it is made of, for scanners of images.
cargo_auditable_version=0.7.7
# Reads those, and Debian's status.d, from the image: the list beside it.
syft_version=v1.57.0
# Of a release, as it is pulled.
most_mib=30
# What our programs and the host's libnvidia-ml link to. Before glibc 2.34 the
# small ones are libraries of their own, since then stubs that old programs
# still name.
base_libraries="libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libnss_files.so.2 libnss_dns.so.2 libgcc_s.so.1"
epoch=${SOURCE_DATE_EPOCH:-0}

parse_arguments() {
    profile=release
    out=$root/out/imex-dra-image.tar
    twice=
    while [ $# -gt 0 ]; do
        case $1 in
            --profile | --out)
                [ $# -ge 2 ] || die "$1 needs a value"
                if [ "$1" = --out ]; then out=$2; else profile=$2; fi
                shift 2
                ;;
            --twice) twice=1 && shift ;;
            -h | --help) usage && exit 0 ;;
            *) die "unknown argument $1: see $0 --help" ;;
        esac
    done
    case $profile in
        dev | release) ;;
        *) die "--profile is dev or release, not '$profile'" ;;
    esac
}

# --- machine ----------------------------------------------------------------

# Sets architecture (Debian's and OCI's word), triplet (Debian's library
# directory), machine (Rust's word) and loader (where programs look for it).
find_machine() {
    if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-deb >/dev/null 2>&1; then
        die "the image's base is made from Debian packages: run this on Debian or Ubuntu, or in a container of one (apt-get and dpkg-deb are needed)"
    fi
    need_tools cargo cc tar gzip
    architecture=$(dpkg --print-architecture)
    case $architecture in
        amd64) machine=x86_64 loader=/lib64/ld-linux-x86-64.so.2 ;;
        arm64) machine=aarch64 loader=/lib/ld-linux-aarch64.so.1 ;;
        *) die "no image for $architecture: amd64 and arm64 are the machines with NVLink" ;;
    esac
    triplet=$machine-linux-gnu
}

# --- programs ---------------------------------------------------------------

# Sets bin, the directory with the programs, all symbols still in.
build_programs() {
    local target_dir packages=(-p compute-domain-controller -p dra-shim -p imex-daemon -p cdi-gen)
    target_dir=$(cd "$root" && cargo metadata --format-version 1 --no-deps --offline 2>/dev/null |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
    [ -n "$target_dir" ] || target_dir=$root/target
    if [ "$profile" = dev ]; then
        (cd "$root" && cargo build --bins "${packages[@]}") >&2 || die "the programs did not build; cargo's message is above"
        bin=$target_dir/debug
        return
    fi
    local target=$machine-unknown-linux-gnu
    get_zig
    get_cargo_tool cargo-zigbuild "$cargo_zigbuild_version"
    get_cargo_tool cargo-auditable "$cargo_auditable_version"
    # Remapped, so that a release does not depend on where it was built; generated sources are in the target directory.
    (cd "$root" &&
        RUSTFLAGS="--remap-path-prefix=$root=/imex-dra --remap-path-prefix=$target_dir=/imex-dra/target --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
            CARGO_ZIGBUILD_ZIG_PATH=$zig PATH=$tools_path$PATH \
            cargo auditable zigbuild --release --locked --bins --target "$target.$glibc_floor" "${packages[@]}") >&2 ||
        die "the programs did not build; cargo's message is above"
    bin=$target_dir/$target/release
    local program
    for program in $programs; do check_glibc_floor "$bin/$program"; done
}

# Sets zig; installs it once, complete or not at all.
get_zig() {
    local tools=$IMEX_CACHE/tools
    zig=$tools/ziglang-$ziglang_version/zig
    [ ! -x "$zig" ] || return 0
    mkdir -p "$tools"
    say "installing ziglang $ziglang_version into $tools (once)"
    need_tools python3
    python3 -m venv "$scratch/venv" >&2 || die "python3 -m venv failed; as root run: apt-get install python3-venv"
    "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check "ziglang==$ziglang_version" >&2 ||
        die "pip could not install ziglang $ziglang_version; its message is above"
    install_dir "$(echo "$scratch"/venv/lib/python3*/site-packages/ziglang)" "$tools/ziglang-$ziglang_version"
}

# get_cargo_tool NAME VERSION: puts its directory before tools_path; installs it
# once, complete or not at all.
tools_path=
get_cargo_tool() {
    local to=$IMEX_CACHE/tools/$1-$2
    if [ ! -x "$to/bin/$1" ]; then
        say "installing $1 $2 into $IMEX_CACHE/tools (once, one or two minutes)"
        cargo install --quiet --locked --root "$scratch/$1" "$1@$2" >&2 ||
            die "cargo could not install $1 $2; its message is above"
        install_dir "$scratch/$1" "$to"
    fi
    tools_path=$to/bin:$tools_path
}

# install_dir FROM TO: FROM may be on another file system; TO appears whole.
install_dir() {
    rm -rf "$2" "$2.new.$$"
    cp -a "$1" "$2.new.$$"
    mv "$2.new.$$" "$2"
}

check_glibc_floor() {
    local newest
    newest=$(objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 || true)
    [ -n "$newest" ] || die "$1 needs no symbol of glibc: it is not linked dynamically and cannot dlopen NVML"
    [ "$(printf '%s\n' "$newest" "GLIBC_$glibc_floor" | sort -V | tail -1)" = "GLIBC_$glibc_floor" ] ||
        die "$1 needs a symbol of $newest; released programs must run with glibc $glibc_floor"
    say "$(basename "$1") needs glibc ${newest#GLIBC_} or newer (allowed: $glibc_floor)"
}

# --- base -------------------------------------------------------------------

apt_get() { apt-get -qq -o APT::Sandbox::User=root "$@"; }

# fetch_package NAME: sets package to its .deb in the cache, at the version
# that this machine's package lists name.
fetch_package() {
    local cache=$IMEX_CACHE/image/debs file
    mkdir -p "$cache" "$scratch/debs"
    file=$(package_file "$1")
    if [ -z "$file" ] || [ ! -f "$cache/$file" ]; then
        say "downloading Debian's $1"
        if [ -z "$file" ] || ! (cd "$scratch/debs" && apt_get download "$1") 2>"$scratch/apt.log"; then
            # No package lists, or older ones than the mirror.
            apt_get update >/dev/null 2>&1 || die "no package lists for $1; as root run: apt-get update"
            (cd "$scratch/debs" && apt_get download "$1") 2>"$scratch/apt.log" ||
                die "apt-get download $1 failed: $(tail -1 "$scratch/apt.log")"
            file=$(package_file "$1")
        fi
        mv "$scratch/debs/$file" "$cache/$file"
    fi
    package=$cache/$file
}

# The file name apt would download NAME to, or nothing.
package_file() { { apt_get download --print-uris "$1" 2>/dev/null || true; } | awk 'NR == 1 {print $2}'; }

# add_package NAME: unpacks it beside the image and leaves in the image what
# its licence and a vulnerability scanner want: copyright and control data.
add_package() {
    local name=$1
    fetch_package "$name"
    dpkg-deb -x "$package" "$scratch/unpacked"
    mkdir -p "$rootfs/var/lib/dpkg/status.d"
    dpkg-deb -f "$package" >"$rootfs/var/lib/dpkg/status.d/$name"
    if [ ! -L "$scratch/unpacked/usr/share/doc/$name" ]; then
        install -D -m 644 -t "$rootfs/usr/share/doc/$name" "$scratch/unpacked/usr/share/doc/$name/copyright"
    fi
}

make_base() {
    local gcc_base
    add_package libc6
    add_package libgcc-s1
    # libgcc-s1 keeps its copyright in the gcc-N-base it depends on.
    gcc_base=$(dpkg-deb -f "$package" Depends | grep -o 'gcc-[0-9]*-base' || true)
    [ -n "$gcc_base" ] || die "$package does not depend on a gcc-N-base package: where is its copyright?"
    add_package "$gcc_base"

    # Merged-/usr whatever the release packs, so that one path is the path.
    local library from
    mkdir -p "$rootfs/usr/lib/$triplet" "$rootfs/usr/lib64" "$rootfs/usr/bin" "$rootfs/etc" "$rootfs/run"
    ln -s usr/lib "$rootfs/lib"
    ln -s usr/lib64 "$rootfs/lib64"
    ln -s usr/bin "$rootfs/bin"
    for library in $base_libraries "$(basename "$loader")"; do
        from=$(find "$scratch/unpacked" -path "*/$triplet/$library" | head -1)
        [ -n "$from" ] || die "Debian's packages of this release hold no $library"
        install -m 755 "$from" "$rootfs/usr/lib/$triplet/$library"
    done
    if [ ! -e "$rootfs$loader" ]; then
        ln -s "../lib/$triplet/$(basename "$loader")" "$rootfs/usr$loader"
    fi
    printf 'root:x:0:0:root:/:/nonexistent\nnonroot:x:65532:65532:nonroot:/:/nonexistent\n' >"$rootfs/etc/passwd"
    printf 'root:x:0:\nnonroot:x:65532:\n' >"$rootfs/etc/group"
    printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$rootfs/etc/nsswitch.conf"
    install -m 644 /etc/os-release "$rootfs/etc/os-release"
    install -d -m 1777 "$rootfs/tmp"
}

# --- image ------------------------------------------------------------------

add_programs() {
    local program needed
    install -D -m 644 "$root/LICENSE" "$rootfs/usr/share/doc/imex-dra/LICENSE"
    for program in $programs; do
        install -m 755 "$bin/$program" "$rootfs/usr/bin/$program"
        strip --strip-all "$rootfs/usr/bin/$program"
        [ "$(readelf -p .interp "$bin/$program" | grep -o '/lib.*' || true)" = "$loader" ] ||
            die "$program does not ask for $loader: is it static, or for another machine?"
        for needed in $(readelf -d "$bin/$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
            [ -e "$rootfs/usr/lib/$triplet/$needed" ] || die "$program needs $needed, which the image's base does not hold"
        done
    done
}

# No shell, no package manager: whoever gets into a container finds our programs to start, and nothing else.
check_programs() {
    local found
    found=$(find "$rootfs" -path "$rootfs/usr/lib" -prune -o -type f -perm /111 -printf '%P\n' | sort)
    # shellcheck disable=SC2086 # a list of words on purpose
    [ "$found" = "$(printf 'usr/bin/%s\n' $programs | sort)" ] || die "the image has other programs than ours: $found"
}

plain_tar() { tar --sort=name --format=gnu --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -cf "$@"; }

digest() { sha256sum "$1" | cut -d' ' -f1; }

# add_blob FILE: moves it into the layout, prints "DIGEST SIZE".
add_blob() {
    local hash size
    hash=$(digest "$1")
    size=$(stat -c %s "$1")
    mv "$1" "$layout/blobs/sha256/$hash"
    echo "$hash $size"
}

descriptor() { printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s' "$1" "$2" "$3"; }

pack() {
    local version created diff_id layer config manifest gzip_level
    version=$(sed -n 's/^appVersion: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' "$root/deployments/helm/imex-dra/Chart.yaml")
    [ -n "$version" ] || die "deployments/helm/imex-dra/Chart.yaml has no appVersion"
    reference=localhost/imex-dra:v$version
    created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
    mkdir -p "$layout/blobs/sha256"

    plain_tar "$scratch/layer.tar" -C "$rootfs" .
    diff_id=$(digest "$scratch/layer.tar")
    if [ "$profile" = dev ]; then gzip_level=1; else gzip_level=9; fi
    gzip -n -$gzip_level "$scratch/layer.tar"
    layer=$(add_blob "$scratch/layer.tar.gz")

    # MALLOC_ARENA_MAX: glibc keeps an arena for each of a program's threads, which
    # doubles its memory; these programs allocate little.
    cat >"$scratch/config" <<JSON
{"created":"$created","architecture":"$architecture","os":"linux","config":{"User":"0:0","Env":["PATH=/usr/bin","NVIDIA_VISIBLE_DEVICES=void","MALLOC_ARENA_MAX=1"],"WorkingDir":"/","Labels":{"org.opencontainers.image.title":"imex-dra","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$diff_id"]},"history":[{"created":"$created","created_by":"hack/image.sh --profile $profile"}]}
JSON
    config=$(add_blob "$scratch/config")
    # shellcheck disable=SC2086 # "DIGEST SIZE" is two words on purpose
    cat >"$scratch/manifest" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":$(descriptor config.v1+json $config)},"layers":[$(descriptor layer.v1.tar+gzip $layer)}]}
JSON
    manifest=$(add_blob "$scratch/manifest")
    image_digest=sha256:${manifest% *}
    # shellcheck disable=SC2086
    cat >"$layout/index.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[$(descriptor manifest.v1+json $manifest),"platform":{"architecture":"$architecture","os":"linux"},"annotations":{"io.containerd.image.name":"$reference","org.opencontainers.image.ref.name":"$reference"}}]}
JSON
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"

    mkdir -p "$(dirname "$out")"
    plain_tar "$out.new.$$" -C "$layout" blobs index.json oci-layout
    if [ "$profile" = release ]; then
        check_size
        write_sbom "$out.new.$$"
    fi
    mv "$out.new.$$" "$out"
}

# --- release ----------------------------------------------------------------

check_size() {
    local most=$((most_mib * 1024 * 1024)) size
    size=$(stat -c %s "$out.new.$$")
    [ "$size" -le $most ] || die "the image has $size bytes, and a release may have $most: what has grown?"
}

# Lists what scanners find in the image itself: nothing is declared by hand.
write_sbom() {
    local syft=$IMEX_CACHE/tools/syft-$syft_version/syft
    if [ ! -x "$syft" ]; then
        need_tools go
        say "building syft $syft_version into $IMEX_CACHE/tools (once, a few minutes)"
        GOFLAGS=-mod=mod GOBIN=$scratch/syft GOMODCACHE=$scratch/go/mod GOCACHE=$scratch/go/cache \
            go install "github.com/anchore/syft/cmd/syft@$syft_version" >&2 ||
            die "syft $syft_version did not build; go's message is above"
        chmod -R u+w "$scratch/go"
        install_dir "$scratch/syft" "$(dirname "$syft")"
    fi
    SYFT_CHECK_FOR_APP_UPDATE=false "$syft" scan --quiet --source-name imex-dra --source-version "v$version" \
        --output "spdx-json=$sbom.new.$$" "oci-archive:$1" >&2 || die "syft could not read the image"
    local program
    for program in $programs; do
        grep -q "/usr/bin/$program\b" "$sbom.new.$$" || die "the list of contents does not name what $program is made of"
    done
    mv "$sbom.new.$$" "$sbom"
}

# Builds once more, where no path, file or cache is the same.
compare_with_second() {
    local copy=$scratch/elsewhere second
    mkdir -p "$copy"
    (cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 tar -cf - ) | tar -xf - -C "$copy"
    say "building again in another directory"
    CARGO_TARGET_DIR=$scratch/elsewhere-target "$copy/hack/image.sh" --profile "$profile" --out "$scratch/second.tar" >/dev/null
    second=$(digest "$scratch/second.tar")
    [ "$second" = "$(digest "$out")" ] || die "the second build has another digest than the first: $second"
    say "both builds have the same digest"
}

parse_arguments "$@"
find_machine
scratch=$(mktemp -d)
sbom=${out%.tar}.spdx.json
trap 'rm -rf "$scratch" "$out.new.$$" "$sbom.new.$$"' EXIT
rootfs=$scratch/rootfs
layout=$scratch/layout
build_programs
make_base
add_programs
check_programs
pack
say "$reference $image_digest ($(($(stat -c %s "$out") / 1024)) KiB, $profile, $architecture)"
[ -z "$twice" ] || compare_with_second
echo "$out"
