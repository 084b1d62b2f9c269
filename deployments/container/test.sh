#!/usr/bin/env bash
# Checks Containerfile without building it: same programs, packages and environment as in hack/image.sh.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../hack/lib.sh"
cd "$root"

# same WHAT FROM_IMAGE_SH FROM_CONTAINERFILE: lists of words, in any order.
same() {
    local what=$1 ours theirs
    ours=$(tr -s ' \n' '\n' <<<"$2" | sed '/^$/d' | sort)
    theirs=$(tr -s ' \n' '\n' <<<"$3" | sed '/^$/d' | sort)
    [ -n "$ours" ] || die "no $what found in hack/image.sh; adapt the pattern in this script"
    [ "$ours" = "$theirs" ] || die "deployments/container/Containerfile and hack/image.sh differ in their $what: $(diff <(echo "$ours") <(echo "$theirs") || true)"
}

file=deployments/container/Containerfile
same programs \
    "$(sed -n 's/^programs="$glibc_programs \(.*\)"$/\1/p; s/^glibc_programs="\(.*\)"$/\1/p' hack/image.sh)" \
    "$(sed -n 's,^ *\/src/target/release/\([a-z-]*\).*,\1,p' "$file")"
same packages \
    "$(sed -n 's/.*packages=(\(.*\))$/\1/p' hack/image.sh | sed 's/-p//g') nvidia-cdi-hook" \
    "$(sed -n 's/^ *-p /-p /p' "$file" | sed 's/-p//g; s/\\$//')"
same environment \
    "$(sed -n 's/.*"Env":\[\([^]]*\)\].*/\1/p' hack/image.sh | tr -d '"' | tr , ' ')" \
    "$(sed -n 's/^ENV //p' "$file")"
say "Containerfile: the same programs, packages and environment as hack/image.sh"
