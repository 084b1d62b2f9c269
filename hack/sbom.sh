# shellcheck shell=bash disable=SC2154 # shares variables with the scripts that source it
# SBOMs (SPDX 2.3) of a release's files, from a scanner: nothing is declared by hand. Sourced after hack/machine.sh.

# syft reads Debian's status.d and the data that cargo auditable has written into programs.
syft_version=v1.57.0

# Sets syft; builds it once, atomically.
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

# write_sbom NAME VERSION SOURCE DIGEST FILE: writes the SBOM of SOURCE, in syft's notation. The same source gives the
# same file: syft's timestamp is replaced by a fixed date, and its random namespace by DIGEST.
write_sbom() {
    local platform=()
    get_syft
    # Selects an image of an index; for a file, syft rejects the option.
    [[ $3 != oci-dir:* ]] || platform=(--platform "linux/$architecture")
    SYFT_CHECK_FOR_APP_UPDATE=false "$syft" scan --quiet --source-name "$1" --source-version "$2" \
        "${platform[@]}" --output "spdx-json=$scratch/sbom" "$3" >&2 || die "syft could not read $3"
    mkdir -p "$(dirname "$5")"
    sed -E -e "s|(\"created\": *)\"[^\"]*\"|\1\"$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)\"|" \
        -e "s|(\"documentNamespace\": *)\"[^\"]*\"|\1\"https://imex-dra.invalid/spdx/$4\"|" "$scratch/sbom" >"$5"
}
