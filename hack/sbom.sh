# shellcheck shell=bash disable=SC2154 # shares variables with the scripts that source it
# Lists of what a release's files are made of (SPDX 2.3), as a scanner finds it in them: nothing is declared by
# hand. Sourced after hack/machine.sh.

# Reads Debian's status.d and what cargo auditable has written into programs.
syft_version=v1.57.0

# Sets syft; builds it once, complete or not at all.
get_syft() {
    syft=$IMEX_CACHE/tools/syft-$syft_version/syft
    [ ! -x "$syft" ] || return 0
    need_tools go
    say "building syft $syft_version into $IMEX_CACHE/tools (once, a few minutes)"
    GOFLAGS=-mod=mod GOBIN=$scratch/syft GOMODCACHE=$scratch/go/mod GOCACHE=$scratch/go/cache \
        go install "github.com/anchore/syft/cmd/syft@$syft_version" >&2 ||
        die "syft $syft_version did not build; go's message is above"
    chmod -R u+w "$scratch/go"
    install_dir "$scratch/syft" "$(dirname "$syft")"
}

# write_sbom NAME VERSION SOURCE DIGEST FILE: of a SOURCE as syft names them. The same source gives the same file:
# what syft makes of the time and of chance is made of DIGEST.
write_sbom() {
    local platform=()
    get_syft
    # Of an image's index it is which one; with a file syft refuses it.
    [[ $3 != oci-dir:* ]] || platform=(--platform "linux/$architecture")
    SYFT_CHECK_FOR_APP_UPDATE=false "$syft" scan --quiet --source-name "$1" --source-version "$2" \
        "${platform[@]}" --output "spdx-json=$scratch/sbom" "$3" >&2 || die "syft could not read $3"
    mkdir -p "$(dirname "$5")"
    sed -E -e "s|(\"created\": *)\"[^\"]*\"|\1\"$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)\"|" \
        -e "s|(\"documentNamespace\": *)\"[^\"]*\"|\1\"https://imex-dra.invalid/spdx/$4\"|" "$scratch/sbom" >"$5"
}
