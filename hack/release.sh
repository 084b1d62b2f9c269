#!/usr/bin/env bash
# Makes the files of a release in out/imex-dra-VERSION. VERSION is that of Cargo.toml and the chart:
#
#   hack/release.sh            makes the release; replaces an existing one
#   hack/release.sh --check    makes it again and fails if the existing one differs
#
#   imex-dra-image-VERSION.tar          the image for arm64 and amd64 (hack/image.sh --arch all)
#   imex-dra-image-VERSION.ARCH.spdx.json   its SBOM
#   imex-dra-VERSION.tgz                the chart
#   cdi-gen-VERSION-linux-ARCH.tar.gz   the program, which needs only glibc 2.28, its man pages, completions and
#                                       SBOM; nvidia-cdi-hook, which is static
#   crates/                             the published crates; ORDER has the order for `cargo publish`
#   RELEASE-NOTES.md                    the section of this version in CHANGELOG.md, or the Unreleased one
#   SHA256SUMS                          checksums of all files
#
# Needs no network if hack/image.sh --arch all and `cargo fetch --locked` have run before.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"
# shellcheck source=hack/machine.sh
. hack/machine.sh
# shellcheck source=hack/sbom.sh
. hack/sbom.sh
umask 022
export LC_ALL=C

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
out=$root/out/imex-dra-$version
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

check_versions() {
    local key chart=deployments/helm/imex-dra/Chart.yaml
    for key in version appVersion; do
        grep -qE "^$key: \"?$version\"?$" "$chart" || die "$key in $chart differs from the version in Cargo.toml, $version; make them the same"
    done
}

# The same files give the same archive.
archive() { plain_tar - "$@" | gzip -n -9; }

make_image() {
    hack/image.sh --arch all --out "$new/imex-dra-image-$version.tar" >/dev/null
}

make_chart() { archive -C deployments/helm imex-dra >"$new/imex-dra-$version.tgz"; }

# The program that is in the image.
make_cdi_gen() {
    local name directory
    hack/cli-docs.sh "$scratch/cli-docs"
    for each in $architectures; do
        use_architecture "$each"
        name=cdi-gen-$version-linux-$architecture
        directory=$scratch/$name
        mkdir "$directory"
        install -m 755 "$target_dir/$target/release/cdi-gen" "$directory/cdi-gen"
        check_elf "$directory/cdi-gen"
        # For the specs of `cdi-gen generate gpu`.
        install -m 755 "$(hack/hook.sh --arch "$architecture")" "$directory/nvidia-cdi-hook"
        write_sbom cdi-gen "$version" "file:$directory/cdi-gen" "sha256:$(sha256sum "$directory/cdi-gen" | cut -d' ' -f1)" "$directory/cdi-gen.spdx.json"
        grep -q '"name": *"imex-cdi"' "$directory/cdi-gen.spdx.json" || die "the SBOM of cdi-gen lacks imex-cdi"
        cp -r "$scratch/cli-docs/man" "$scratch/cli-docs/completions" LICENSE "$directory"
        archive -C "$scratch" "$name" >"$new/$name.tar.gz"
    done
}

make_crates() {
    local package
    rm -rf "$target_dir/package"
    mkdir "$new/crates"
    # cargo packages them in dependency order and prints that order.
    cargo package --offline --locked --no-verify "${published[@]/#/--package=}" 2>&1 |
        tee "$scratch/cargo.log" | sed -n 's/^ *Packaging \([a-z-]*\) .*/\1/p' >"$new/crates/ORDER" ||
        die "cargo package failed: $(cat "$scratch/cargo.log")"
    while read -r package; do
        cp "$target_dir/package/$package-$version.crate" "$new/crates/"
    done <"$new/crates/ORDER"
    [ "$(wc -l <"$new/crates/ORDER")" = ${#published[@]} ] || die "cargo has not packaged all of these crates: ${published[*]}"
}

make_notes() {
    local section=$version
    grep -q "^## $version\b" CHANGELOG.md || section=Unreleased
    awk -v section="$section" '/^## / {inside = ($2 == section)} inside' CHANGELOG.md >"$new/RELEASE-NOTES.md"
    [ -s "$new/RELEASE-NOTES.md" ] || die "CHANGELOG.md has neither a section '## $version' nor '## Unreleased'"
}

make_all() {
    new=$1
    check_versions
    make_image
    make_chart
    make_cdi_gen
    make_crates
    make_notes
    (cd "$new" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >"$scratch/sums" && mv "$scratch/sums" SHA256SUMS)
}

case ${1-} in
    "")
        rm -rf "$out.new"
        mkdir -p "$out.new"
        make_all "$out.new"
        rm -rf "$out"
        mv "$out.new" "$out"
        (cd "$out" && find . -type f -printf '%10s %P\n' | sort -k2) >&2
        echo "$out"
        ;;
    --check)
        [ -f "$out/SHA256SUMS" ] || die "no release in $out: run hack/release.sh first"
        (cd "$out" && sha256sum --quiet --check SHA256SUMS >&2) || die "files in $out do not match SHA256SUMS; see above"
        mkdir "$scratch/again"
        make_all "$scratch/again"
        diff "$out/SHA256SUMS" "$scratch/again/SHA256SUMS" >&2 || die "$out (<) differs from a build of these sources (>)"
        say "$out matches a build of these sources"
        ;;
    *) die "unknown argument $1; usage: hack/release.sh [--check]" ;;
esac
