# shellcheck shell=bash disable=SC2034 # used by the scripts that source it
# Shared by the scripts in hack/: cache directory, messages, --help, and installation
# of tools. Sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
IMEX_CACHE=${IMEX_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/imex-dra}
export IMEX_CACHE
# The published crates: each must build and package on its own.
published=(dra-common-derive dra-common dra-claim durable-file dra-checkpoint imex-cdi nvml-session nvml-clique gpu-inventory nvidia-driver-files nvidia-cdi-hook dra-kubelet nri-plugin)
# Where cargo builds.
target_dir=${CARGO_TARGET_DIR:-$root/target}

say() { printf '%s\n' "$*" >&2; }

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# end_children: ends this script's running child processes and their descendants. For EXIT traps: a signal to the
# script alone leaves its commands running.
end_children() {
    trap '' INT TERM HUP
    local pids
    pids=$(descendants $$)
    # shellcheck disable=SC2086 # words on purpose
    [ -z "$pids" ] || kill $pids 2>/dev/null || true
}

descendants() {
    local pid
    for pid in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
        [ "$pid" = "$BASHPID" ] || echo "$pid"
        descendants "$pid"
    done
}

# Fails if a cluster of hack/cluster.sh is up or starting, healthy or not: it is in use.
no_cluster() {
    local now
    # If it prints no state, it has printed an error.
    now=$("$root/hack/cluster.sh" status) || [ -n "$now" ] || exit 1
    [[ $now = down* ]] || die "a cluster is up already; end it first with hack/cluster.sh down"
}

# The date of built files: the same sources give the same files.
epoch=${SOURCE_DATE_EPOCH:-0}

# plain_tar FILE ARG...: tar without this machine's order, dates and owners.
plain_tar() { tar --sort=name --format=gnu --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -cf "$@"; }

# Prints the script's header, unless the script has its own usage.
declare -F usage >/dev/null || usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }

# Every script prints its usage for --help and exits.
case ${1-} in
    -h | --help) usage && exit 0 ;;
esac

# The Debian package that contains a tool.
package_of() {
    case $1 in
        ip) echo iproute2 ;;
        nft) echo nftables ;;
        busybox) echo busybox-static ;;
        flock | unshare | nsenter | setpriv | setsid | mountpoint) echo util-linux ;;
        pkill | pgrep | ps | sysctl) echo procps ;;
        cc) echo gcc libc6-dev ;;
        readelf) echo binutils ;;
        x86_64-linux-gnu-strip) echo binutils-x86-64-linux-gnu ;;
        aarch64-linux-gnu-strip) echo binutils-aarch64-linux-gnu ;;
        qemu-*-static) echo qemu-user-static ;;
        qemu-system-aarch64) echo qemu-system-arm ;;
        go) echo golang ;;
        xz) echo xz-utils ;;
        systemd-analyze) echo systemd ;;
        python3) echo python3 python3-venv ;;
        *) echo "$1" ;;
    esac
}

# need_tools TOOL...: on Debian as root, installs missing tools; elsewhere fails and
# prints the command to run. Users install Go and Rust themselves: Debian's are too
# old.
need_tools() {
    local missing=() tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || missing+=("$tool")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local packages=()
    for tool in "${missing[@]}"; do
        case $tool in
            go) die "go is missing: install Go 1.26.3 or newer and put it on PATH" ;;
            cargo) die "cargo is missing: install Rust 1.89 or newer with rustup and put it on PATH" ;;
        esac
        # shellcheck disable=SC2207 # words on purpose: a tool may need two packages
        packages+=($(package_of "$tool"))
    done
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing ${packages[*]} (for ${missing[*]})"
        mkdir -p "$IMEX_CACHE"
        # One script at a time: hack/test.sh runs several.
        {
            flock 8
            apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}"
        } >/dev/null 8>"$IMEX_CACHE/apt.lock" ||
            die "${missing[*]} missing; as root run: apt-get update && apt-get install ${packages[*]}"
    else
        die "${missing[*]} missing; as root run: apt-get update && apt-get install ${packages[*]}"
    fi
}
