#!/usr/bin/env bash
# Builds the programs and packs them with a small glibc base into one OCI
# image archive, without docker and without a registry:
#
#   hack/image.sh [--arch arm64|amd64|all] [--profile dev|release] [--out FILE] [--twice]
#
# --arch: CPU architecture (this machine's); all: one archive with an index of both,
# from which container runtimes select their image.
# --twice: then builds everything again, from a copy of the sources in another
# directory and without caches, and fails if the archive differs.
#
# A release image comes with an SBOM, FILE with .spdx.json instead of .tar; with
# --arch all there are two, .arm64.spdx.json and .amd64.spdx.json.
# Prints the archive's path on stdout. `ctr -n k8s.io images import FILE`
# imports it as localhost/imex-dra:v<the chart's appVersion>. The same
# programs and the same Debian packages give the same image digest.
# deployments/container/README.md explains the choice of the base.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/lib.sh
. "$here/lib.sh"
# shellcheck source=hack/machine.sh
. "$here/machine.sh"
# shellcheck source=hack/sbom.sh
. "$here/sbom.sh"
umask 022
export LC_ALL=C

glibc_programs="compute-domain-controller compute-domain-kubelet-plugin compute-domain-daemon gpu-kubelet-plugin cdi-gen"
# The hook is static, because it runs on hosts.
programs="$glibc_programs nvidia-cdi-hook"
# The limit for a release's compressed layer.
most_mib=30
# Libraries that our programs and the host's libnvidia-ml link to. Before glibc 2.34
# the small ones were separate libraries; now they are stubs that old programs still
# name.
base_libraries="libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libnss_files.so.2 libnss_dns.so.2 libgcc_s.so.1"

parse_arguments() {
    arch=
    profile=release
    out=$root/out/imex-dra-image.tar
    twice=
    while [ $# -gt 0 ]; do
        case $1 in
            --arch | --profile | --out)
                [ $# -ge 2 ] || die "$1 needs a value"
                case $1 in
                    --arch) arch=$2 ;;
                    --profile) profile=$2 ;;
                    --out) out=$2 ;;
                esac
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
    [ -n "$out" ] && [ ! -d "$out" ] || die "--out '$out' is not a file name"
    { mkdir -p "$(dirname "$out")" && [ -w "$(dirname "$out")" ]; } 2>/dev/null || die "--out $out: its directory is not writable"
    [ -n "$arch" ] || arch=$(native_architecture)
    if [ "$arch" = all ]; then
        wanted=$architectures
    else
        use_architecture "$arch" "arm64, amd64 or all"
        wanted=$arch
    fi
}

# --- programs ---------------------------------------------------------------

# Sets bin, the directory with the programs that link glibc, and hook, the path of the other (not stripped).
build_programs() {
    local cargo=(dev_cargo) packages=(-p compute-domain-controller -p compute-domain-plugin -p imex-daemon -p gpu-plugin -p cdi-gen)
    bin=$(programs_dir)
    if [ "$profile" = release ]; then
        get_cross_tools
        get_cargo_tool cargo-auditable "$cargo_auditable_version"
        # Remapped, so that a release does not depend on the build directory. Generated sources are in the target directory.
        export RUSTFLAGS="--remap-path-prefix=$root=/imex-dra --remap-path-prefix=$target_dir=/imex-dra/target --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
        cargo=(with_zig cargo auditable zigbuild --release --locked --target "$target.$glibc_floor")
        bin=$target_dir/$target/release
    fi
    "${cargo[@]}" --bins "${packages[@]}" >&2 || die "the programs did not build; cargo's message is above"
    [ "$profile" = dev ] || check_glibc_floor
    hook=$("$here/hook.sh" --arch "$architecture" --profile "$profile")
}

check_glibc_floor() {
    local program newest
    for program in $glibc_programs; do
        newest=$(readelf --version-info "$bin/$program" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1 || true)
        [ -n "$newest" ] || die "$program needs no glibc symbol: it is linked statically and cannot dlopen NVML"
        [ "$(printf '%s\n' "$newest" "GLIBC_$glibc_floor" | sort -V | tail -1)" = "GLIBC_$glibc_floor" ] ||
            die "$program needs $newest; released programs must run with glibc $glibc_floor"
        say "$program needs glibc ${newest#GLIBC_} or newer (allowed: $glibc_floor)"
    done
}

# --- base -------------------------------------------------------------------

# add_package NAME: unpacks it beside the image. Adds its copyright file (required by
# the licence) and control data (for vulnerability scanners) to the image.
add_package() {
    local name=$1
    fetch_package "$name"
    dpkg-deb -x "$package" "$unpacked"
    mkdir -p "$rootfs/var/lib/dpkg/status.d"
    dpkg-deb -f "$package" >"$rootfs/var/lib/dpkg/status.d/$name"
    if [ ! -L "$unpacked/usr/share/doc/$name" ]; then
        install -D -m 644 -t "$rootfs/usr/share/doc/$name" "$unpacked/usr/share/doc/$name/copyright"
    fi
}

make_base() {
    local gcc_base
    add_package libc6
    add_package libgcc-s1
    # The copyright file of libgcc-s1 is in gcc-N-base, a dependency.
    gcc_base=$(dpkg-deb -f "$package" Depends | grep -o 'gcc-[0-9]*-base' || true)
    [ -n "$gcc_base" ] || die "$package does not depend on a gcc-N-base package, which has its copyright file"
    add_package "$gcc_base"

    # Merged /usr, whatever the Debian release has, so that each file has one path.
    local library from
    mkdir -p "$rootfs/usr/lib/$triplet" "$rootfs/usr/lib64" "$rootfs/usr/bin" "$rootfs/etc" "$rootfs/run"
    ln -s usr/lib "$rootfs/lib"
    ln -s usr/lib64 "$rootfs/lib64"
    ln -s usr/bin "$rootfs/bin"
    for library in $base_libraries "$(basename "$loader")"; do
        from=$(find "$unpacked" -path "*/$triplet/$library" | head -1)
        [ -n "$from" ] || die "Debian's packages of this release have no $library"
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
    install -m 755 "$hook" "$rootfs/usr/bin/nvidia-cdi-hook"
    for program in $glibc_programs; do
        install -m 755 "$bin/$program" "$rootfs/usr/bin/$program"
        [ "$(readelf -p .interp "$bin/$program" | grep -o '/lib.*' || true)" = "$loader" ] ||
            die "$program does not use the loader $loader: it is static, or for another architecture"
        for needed in $(readelf -d "$bin/$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
            [ -e "$rootfs/usr/lib/$triplet/$needed" ] || die "$program needs $needed, which the image's base does not have"
        done
    done
    "$triplet-strip" --strip-all "$rootfs"/usr/bin/*
}

# Fails if the image has executables other than our programs, such as a shell or a package manager.
check_programs() {
    local found
    found=$(find "$rootfs" -path "$rootfs/usr/lib" -prune -o -type f -perm /111 -printf '%P\n' | sort)
    # shellcheck disable=SC2086 # a list of words on purpose
    [ "$found" = "$(printf 'usr/bin/%s\n' $programs | sort)" ] || die "the image must contain only our programs; it has: $found"
    while IFS= read -r -d '' found; do
        [ "$(head -c 4 "$found" | tr -d '\0')" != $'\x7fELF' ] || check_elf "$found"
    done < <(find "$rootfs" -type f -print0)
}

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

# Adds the image of one architecture to the layout; sets manifest to the descriptor.
pack() {
    local created diff_id layer config platform gzip_level
    created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
    plain_tar "$scratch/layer.tar" -C "$rootfs" .
    diff_id=$(digest "$scratch/layer.tar")
    if [ "$profile" = dev ]; then gzip_level=1; else gzip_level=9; fi
    gzip -n -$gzip_level "$scratch/layer.tar"
    layer=$(add_blob "$scratch/layer.tar.gz")
    [ "$profile" = dev ] || check_size "${layer#* }"

    platform="\"architecture\":\"$architecture\",\"os\":\"linux\""
    # MALLOC_ARENA_MAX: by default, glibc keeps an arena for each thread, which doubles
    # these programs' memory; they allocate little.
    cat >"$scratch/config" <<JSON
{"created":"$created",$platform,"config":{"User":"0:0","Env":["PATH=/usr/bin","NVIDIA_VISIBLE_DEVICES=void","MALLOC_ARENA_MAX=1"],"WorkingDir":"/","Labels":{"org.opencontainers.image.title":"imex-dra","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$diff_id"]},"history":[{"created":"$created","created_by":"hack/image.sh --profile $profile"}]}
JSON
    config=$(add_blob "$scratch/config")
    # shellcheck disable=SC2086 # "DIGEST SIZE" is two words on purpose
    cat >"$scratch/manifest" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":$(descriptor config.v1+json $config)},"layers":[$(descriptor layer.v1.tar+gzip $layer)}]}
JSON
    manifest=$(add_blob "$scratch/manifest")
    image_digest=sha256:${manifest% *}
    # shellcheck disable=SC2086
    manifest="$(descriptor manifest.v1+json $manifest),\"platform\":{$platform}"
    [ "$profile" = dev ] || list_contents
}

# write_index FILE DESCRIPTOR...: writes an OCI index.
write_index() {
    local file=$1 all
    shift
    all=$(printf '%s},' "$@")
    echo "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\"manifests\":[${all%,}]}" >"$file"
}

# Writes the archive of the image, or of an index of several.
write_archive() {
    local top=${manifests[0]} index
    if [ ${#manifests[@]} -gt 1 ]; then
        write_index "$scratch/index" "${manifests[@]}"
        index=$(add_blob "$scratch/index")
        # shellcheck disable=SC2086 # "DIGEST SIZE" is two words on purpose
        top=$(descriptor index.v1+json $index)
        say "$reference sha256:${index% *} (index of both)"
    fi
    write_index "$layout/index.json" \
        "$top,\"annotations\":{\"io.containerd.image.name\":\"$reference\",\"org.opencontainers.image.ref.name\":\"$reference\"}"
    mkdir -p "$(dirname "$out")"
    plain_tar "$out.new.$$" -C "$layout" blobs index.json oci-layout
    mv "$out.new.$$" "$out"
}

# --- release ----------------------------------------------------------------

# check_size BYTES: fails if the compressed layer is too large.
check_size() {
    local most=$((most_mib * 1024 * 1024))
    [ "$1" -le $most ] || die "the image for $architecture has $1 bytes; the limit for a release is $most"
}

# Writes the image's SBOM beside the archive.
list_contents() {
    local list=${out%.tar}.spdx.json program
    [ "$wanted" = "$architecture" ] || list=${out%.tar}.$architecture.spdx.json
    write_index "$layout/index.json" "$manifest"
    write_sbom imex-dra "v$version" "oci-dir:$layout" "$image_digest" "$list"
    for program in $programs; do
        grep -q "/usr/bin/$program\b" "$list" || die "the SBOM does not list the crates of $program"
    done
}

# Builds again with other paths, files and caches.
compare_with_second() {
    local copy=$scratch/elsewhere second
    mkdir -p "$copy"
    (cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 tar -cf - ) | tar -xf - -C "$copy"
    say "building again in another directory"
    CARGO_TARGET_DIR=$scratch/elsewhere-target "$copy/hack/image.sh" --arch "$arch" --profile "$profile" --out "$scratch/second.tar" >/dev/null
    second=$(digest "$scratch/second.tar")
    [ "$second" = "$(digest "$out")" ] || die "the second build has a different digest: $second"
    say "both builds have the same digest"
}

# Sets manifest and image_digest.
make_image() {
    local started=$SECONDS
    use_architecture "$1"
    need_tools cargo cc tar gzip readelf "$triplet-strip"
    rootfs=$scratch/$architecture/rootfs
    unpacked=$scratch/$architecture/unpacked
    mkdir -p "$rootfs" "$unpacked"
    build_programs
    make_base
    add_programs
    check_programs
    pack
    say "$reference $image_digest ($architecture, $profile, $(du -k --apparent-size "$rootfs" -s | cut -f1) KiB unpacked, $((SECONDS - started)) s)"
}

parse_arguments "$@"
scratch=$(mktemp -d)
trap 'end_children; rm -rf "$scratch" "$out.new.$$"' EXIT
version=$(sed -n 's/^appVersion: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' "$root/deployments/helm/imex-dra/Chart.yaml")
[ -n "$version" ] || die "deployments/helm/imex-dra/Chart.yaml has no appVersion"
reference=localhost/imex-dra:v$version
layout=$scratch/layout
mkdir -p "$layout/blobs/sha256"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
manifests=()
for each in $wanted; do
    make_image "$each"
    manifests+=("$manifest")
done
write_archive
say "$out: $(($(stat -c %s "$out") / 1024)) KiB"
[ -z "$twice" ] || compare_with_second
echo "$out"
