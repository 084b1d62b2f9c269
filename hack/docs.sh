#!/usr/bin/env bash
# Checks the documentation.
#
#   hack/docs.sh --check   without a cluster: all relative links, anchors and source paths in Markdown files
#                          exist, all tables are well-formed, the chart has every value that a documented
#                          command sets, and each command of docs/ is marked as run here, or why not
#   hack/docs.sh [PAGE...] runs the commands (```sh) of pages of docs/ and examples/, by default of all
#                          pages: in order, each page on a fresh cluster of hack/cluster.sh with GPU nodes
#                          (hack/gpu-nodes.sh), all examples on one. Prints page and line of each command
#                          that fails. A page takes one to four minutes, all of them about ten.
#   --keep                 leaves the cluster of the last page up
#
# hack/docs/blocks.awk describes the comments in which a page states what it needs. REGISTRY becomes localhost,
# and helm gets the values for the mock driver.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

tracked() { git ls-files --cached --others --exclude-standard -- "$@"; }

check() {
    local pages status=0 page line what words
    mapfile -t pages < <(tracked '*.md')
    tracked >"$scratch/files"
    awk -v files="$scratch/files" -f hack/docs/fences.awk -f hack/docs/links.awk pass=1 "${pages[@]}" pass=2 "${pages[@]}" || status=1
    awk -f hack/docs/fences.awk -f hack/docs/tables.awk "${pages[@]}" || status=1
    awk -v charts=deployments/helm -f hack/docs/keys.awk "${pages[@]}" || status=1
    # Sources that a page names: paths from the root, or the ends of paths.
    while IFS=: read -r page line words; do
        grep -qxE "(.*/)?$(tr -d '`' <<<"${words//./\\.}")" "$scratch/files" || { say "$page:$line: there is no file $words" && status=1; }
    done < <(grep -noE '`[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+\.(rs|sh|py|awk|tpl)`' "${pages[@]}")
    for page in $(tracked 'docs/*.md' 'examples/*.md'); do
        local cluster=
        while IFS=$'\t' read -r _ line what words; do
            case $what in
                cluster | installed | shared) cluster=$what ;;
                unknown) say "$page:$line: unknown run comment: $words" && status=1 ;;
                run | prints | refused | hosts) [ -n "$cluster" ] || { say "$page:$line: no cluster for this command; add 'run: cluster NODES' at the top of the page, or 'run: none REASON' before the command" && status=1; } ;;
            esac
        done < <(blocks "$page")
    done
    [ $status = 0 ] || die "the documentation has errors; they are above"
}

# blocks PAGE: the page's blocks as hack/docs/blocks.awk prints them.
blocks() {
    rm -rf "$scratch/blocks"
    mkdir "$scratch/blocks"
    awk -v out="$scratch/blocks" -f hack/docs/blocks.awk "$1"
}

# The directory in which readers type commands: the repository without build outputs.
make_workplace() {
    local name
    place=$scratch/place
    rm -rf "$place"
    mkdir -p "$place" "$scratch/bin"
    for name in $(tracked | cut -d/ -f1 | sort -u); do
        ln -s "$root/$name" "$place/$name"
    done
    ln -sfn "$root/out" "$place/out"
    # Adds the values for the mock driver to each helm command for our chart.
    cat >"$scratch/bin/helm" <<'HELM'
#!/bin/sh
helm=$(dirname "$(command -v kubectl)")/helm
case " $* " in
    *" deployments/helm/imex-dra "*) exec "$helm" "$@" --set nvidiaDriverRoot=/run/nvidia/driver,altProcDevices=/run/nvidia/driver/proc/devices ;;
esac
exec "$helm" "$@"
HELM
    chmod +x "$scratch/bin/helm"
}

# run_block FILE: runs it as typed, with the cluster's kubectl and helm.
run_block() {
    # The timeout ends loops that wait for something that never happens.
    (cd "$place" && timeout 300 "$root/hack/cluster.sh" exec bash -c 'PATH=$0:$PATH; exec bash -euo pipefail "$1"' "$scratch/bin" "$1")
}

# need_cluster KIND WORDS: the cluster that the page's first comment requests.
need_cluster() {
    local options
    [ "$1" != shared ] || [ "$shared" != "$2" ] || return 0
    shared=
    hack/cluster.sh down
    read -ra options <<<"$2"
    hack/cluster.sh up --nodes "${options[0]}"
    if [ "$1" = cluster ]; then
        hack/gpu-nodes.sh "${options[@]:1}"
    else
        hack/install.sh "${options[@]:1}"
    fi
    [ "$1" != shared ] || shared=$2
}
# WORDS of the cluster that is up, if pages share it.
shared=

run_page() {
    local page=$1 number line what words file tried=0 left=0 wrong=0 begun=$SECONDS
    say "== $page"
    blocks "$page" >"$scratch/list"
    make_workplace
    while IFS=$'\t' read -r number line what words <&4; do
        file=$scratch/blocks/$number
        sed -i 's,REGISTRY/,localhost/,g' "$file"
        case $what in
            cluster | installed | shared) need_cluster "$what" "$words" ;;
            hosts) hack/gpu-nodes.sh --mode "$words" || wrong=$((wrong + 1)) ;;
            none) left=$((left + 1)) ;;
            file) mkdir -p "$(dirname "$place/$words")" && cp "$file" "$place/$words" ;;
            *)
                tried=$((tried + 1))
                run_one "$page:$line" "$what" "$words" "$file" || wrong=$((wrong + 1))
                ;;
        esac
    done 4<"$scratch/list"
    say "$page: $tried blocks run, $wrong failed, $left skipped; $((SECONDS - begun)) s"
    [ $wrong = 0 ]
}

run_one() {
    local place_in_page=$1 what=$2 words=$3 file=$4 code=0
    run_block "$file" >"$scratch/output" 2>&1 </dev/null || code=$?
    case $what in
        refused) [ $code != 0 ] && grep -qF -- "$words" "$scratch/output" && return ;;
        prints) [ $code = 0 ] && grep -qF -- "$words" "$scratch/output" && return ;;
        *) [ $code != 0 ] || return 0 ;;
    esac
    say "$place_in_page: $what ${words:+\"$words\" }failed, exit code $code:"
    sed 's/^/    $ /' "$file" >&2
    tail -n 30 "$scratch/output" | sed 's/^/    /' >&2
    return 1
}

has_commands() { blocks "$1" | cut -f3 | grep -qxE 'run|prints|refused'; }

keep=
only_check=
pages=()
for argument in "$@"; do
    case $argument in
        --check) only_check=1 ;;
        --keep) keep=1 ;;
        -*) die "unknown argument $argument; usage: hack/docs.sh [--check|PAGE...] [--keep]" ;;
        *) [ -f "$argument" ] || die "no page $argument" && pages+=("$argument") ;;
    esac
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
check
[ -z "$only_check" ] || exit 0
if [ ${#pages[@]} = 0 ]; then
    for page in $(tracked 'docs/*.md' 'examples/*.md'); do
        ! has_commands "$page" || pages+=("$page")
    done
fi
no_cluster
trap 'rm -rf "$scratch"; [ -n "$keep" ] || hack/cluster.sh down' EXIT
failed=()
for page in "${pages[@]}"; do
    run_page "$page" || failed+=("$page")
done
[ ${#failed[@]} = 0 ] || die "commands in ${failed[*]} failed; see above"
