#!/usr/bin/env bash
# Makes an NVIDIA driver root without a GPU: the mock of NVML with its
# nvml-mock.json, nvidia-smi, nvidia-imex-ctl, and stand-ins for /proc files.
#
# Each run writes the whole root: run it again with other options to break or
# repair a host under a running program. It replaces every file by a rename, so a
# reader sees the old one or the new one. Needs bash and coreutils; sed for
# --without.
set -euo pipefail

usage() {
    cat <<'USAGE'
usage: mock-driver.sh ROOT [OPTION]...

library
  --library FILE         the built mock (target/debug/libnvml_mock.so)
  --driver-version V     580.82.07
  --without SYMBOL       a library without SYMBOL (repeat)
  --no-library           no libnvidia-ml
  --cuda FILE            the built mock of CUDA (target/debug/libmock_cuda.so), instead of a file with its name

GPUs and fabric (nvml-mock.json)
  --gpus N               number of GPUs (4)
  --name NAME            product name (NVIDIA GB200)
  --clique UUID.ID       clique of all GPUs
  --state STATE          completed, in-progress, not-started, not-supported or a number
  --status CODE          status of the fabric registration (0)
  --health MASK          health mask (0x1aa: healthy)
  --gpu I:KEY=VALUE      value for GPU I only: name, uuid, clique, state, status, health (repeat)
  --fabric-info V        newest fabric info version of the driver: 3, 2 or 1
  --error SYMBOL[@I]=CODE    the call fails [on GPU I] (repeat)
  --delay SYMBOL[@I]=MS      the call takes MS milliseconds (repeat)
  --hang SYMBOL[@I]          the call hangs until a run without this option (repeat)

kernel and host
  --major N              major of the IMEX channels (a free one that the kernel assigns last)
  --no-major             a kernel module without IMEX channels
  --channels N           ImexChannelCount (2048)
  --imex-state WORD      output of nvidia-imex-ctl -q (READY); FAIL fails, HANG hangs
  --imex-socket PATH     the only socket for which nvidia-imex-ctl succeeds (any)
  --imex-programs DIR    nvidia-imex and nvidia-imex-ctl of the package imex-mock (target/debug), with this
                         machine's loader and C library, instead of a script that prints --imex-state; if
                         --imex-state is given, too, nvidia-imex-ctl prints it without a query to nvidia-imex
  --imex-fault KEY=VALUE a fault of these programs (repeat): see hack/nvml-mock/imex/src/faults.rs
  --shell FILE           static shell for bin/sh, for chroot into the root
  --arch ARCH            architecture of --library and --imex-programs: arm64 or amd64 (this machine's)
  --sysroot DIR          directory of that architecture's loader and C library, for --imex-programs (/)
USAGE
}

# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/machine.sh
. "$root/hack/machine.sh"
use_architecture "$(native_architecture)"

need() { [ "$#" -ge 2 ] || die "$1 needs a value (see --help)"; }
is_number() { [[ $1 =~ ^(0x[0-9a-fA-F]{1,8}|[0-9]{1,10})$ ]] || die "$2 needs a number, not '$1'"; }

driver_root=
library=$target_dir/debug/libnvml_mock.so
version=580.82.07
without=()
with_library=yes
cuda_library=
gpus=4
declare -A all=([name]="NVIDIA GB200" [clique]=6ba7b810-9dad-11d1-80b4-00c04fd430c8.1 [state]=completed [status]=0 [health]=0x1aa)
declare -A one=()
fabric_info=3
errors=() delays=() hangs=()
major=
with_major=yes
channels=2048
imex_state=
imex_programs=
imex_faults=()
imex_socket=
shell=
sysroot=

while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage && exit 0 ;;
        --no-library) with_library=no && shift && continue ;;
        --no-major) with_major=no && shift && continue ;;
        --*) need "$@" ;;
        *)
            [ -z "$driver_root" ] || die "more than one ROOT: '$driver_root' and '$1'"
            driver_root=$1
            shift
            continue
            ;;
    esac
    case $1 in
        --library) library=$2 ;;
        --driver-version) version=$2 ;;
        --without) without+=("$2") ;;
        --cuda) cuda_library=$2 ;;
        --gpus) is_number "$2" "$1" && gpus=$2 ;;
        --name | --clique | --state | --status | --health) all[${1#--}]=$2 ;;
        --gpu)
            [[ $2 =~ ^([0-9]+):(name|uuid|clique|state|status|health)=(.*)$ ]] || die "--gpu needs I:KEY=VALUE, not '$2' (see --help)"
            one[${BASH_REMATCH[1]}:${BASH_REMATCH[2]}]=${BASH_REMATCH[3]}
            ;;
        --fabric-info) is_number "$2" "$1" && fabric_info=$2 ;;
        --error | --delay)
            [[ $2 =~ ^([A-Za-z0-9_@]+)=([0-9]+)$ ]] || die "$1 needs SYMBOL=NUMBER, not '$2'"
            entry="\"${BASH_REMATCH[1]}\": ${BASH_REMATCH[2]}"
            if [ "$1" = --error ]; then errors+=("$entry"); else delays+=("$entry"); fi
            ;;
        --hang) hangs+=("\"$2\"") ;;
        --major) is_number "$2" "$1" && major=$2 ;;
        --channels) is_number "$2" "$1" && channels=$2 ;;
        --imex-state) imex_state=$2 ;;
        --imex-socket) imex_socket=$2 ;;
        --imex-programs) imex_programs=$2 ;;
        --imex-fault)
            [[ $2 =~ ^[A-Z_]+=.+$ ]] || die "--imex-fault needs KEY=VALUE, not '$2'"
            imex_faults+=("$2")
            ;;
        --shell) shell=$2 ;;
        --arch) use_architecture "$2" ;;
        --sysroot) sysroot=$2 ;;
        *) die "unknown option $1 (see --help)" ;;
    esac
    shift 2
done
[ -n "$driver_root" ] || { usage >&2 && die "ROOT is missing"; }
[ "$with_library" = no ] || [ -f "$library" ] || die "no mock library at $library; run: cargo build -p nvml-mock"

library_dir=$driver_root/usr/lib/$triplet

# put FILE [MODE]: replaces FILE atomically by standard input.
put() {
    mkdir -p "$(dirname "$1")"
    cat >"$1.new.$$"
    chmod "${2:-644}" "$1.new.$$"
    mv -fT "$1.new.$$" "$1"
}

put_library() {
    local real=$library_dir/libnvidia-ml.so.$version cuda=$library_dir/libcuda.so.$version old symbol
    mkdir -p "$library_dir"
    if [ "$with_library" = yes ]; then
        cp "$library" "$real.new.$$"
        for symbol in "${without[@]}"; do
            drop_symbol "$real.new.$$" "$symbol"
        done
        mv -fT "$real.new.$$" "$real"
        # An installed driver has CUDA, too.
        if [ -n "$cuda_library" ]; then put "$cuda" <"$cuda_library"; else ln -f "$real" "$cuda"; fi
        ln -sfn "$(basename "$real")" "$library_dir/libnvidia-ml.so.1.new.$$"
        mv -fT "$library_dir/libnvidia-ml.so.1.new.$$" "$library_dir/libnvidia-ml.so.1"
    else
        rm -f "$library_dir/libnvidia-ml.so.1" "$real" "$cuda"
    fi
    for old in "$library_dir"/lib{nvidia-ml,cuda}.so.*.*; do
        [ "$old" = "$real" ] || [ "$old" = "$cuda" ] || rm -f "$old"
    done
}

# Changes the first letter of the name between NUL bytes (in the dynamic string
# table): the name no longer matches its hash, so dlsym fails.
drop_symbol() {
    local before after
    before=$(cksum <"$1")
    LC_ALL=C sed -i "s/\x00$2\x00/\x00x${2:1}\x00/g" "$1"
    after=$(cksum <"$1")
    [ "$before" != "$after" ] || { rm -f "$1" && die "--without $2: the mock has no such symbol"; }
}

# json_text TEXT: prints it as a JSON string.
json_text() {
    local text=${1//\\/\\\\}
    printf '"%s"' "${text//\"/\\\"}"
}

# device I: prints GPU I on one line. The mock of nvidia-smi relies on that.
device() {
    local key state
    local -A gpu=()
    for key in name clique state status health; do
        gpu[$key]=${one[$1:$key]-${all[$key]}}
    done
    [[ ${gpu[clique]} =~ ^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([0-9]+)$ ]] || die "a clique is UUID.ID, not '${gpu[clique]}'"
    local cluster=${BASH_REMATCH[1]} id=${BASH_REMATCH[3]}
    is_number "${gpu[status]}" status
    is_number "${gpu[health]}" health
    case ${gpu[state]} in
        completed | in-progress | not-started | not-supported) state=$(json_text "${gpu[state]}") ;;
        *) is_number "${gpu[state]}" state && state=${gpu[state]} ;;
    esac
    printf '{"name": %s, "uuid": %s, "fabric": {"state": %s, "status": %d, "cluster_uuid": "%s", "clique_id": %s, "health_mask": %d, "health_summary": 1}, "facts": {"pci": "0000:%02x:00.0", "minor": %d, "memory": 85520809984}}' \
        "$(json_text "${gpu[name]}")" "$(json_text "${one[$1:uuid]-$(gpu_uuid "$1")}")" \
        "$state" "${gpu[status]}" "$cluster" "$id" "${gpu[health]}" $(($1 + 1)) "$1"
}

# The same in every run, different on every host.
gpu_uuid() {
    local sum
    sum=$(cksum <<<"${HOSTNAME:-}")
    printf 'GPU-%08x-0000-4000-8000-%012x' "${sum%% *}" "$1"
}

# joined ITEM...: prints them with commas, one on each line.
joined() {
    local separator=
    for item in "$@"; do
        printf '%s\n    %s' "$separator" "$item"
        separator=,
    done
}

put_config() {
    local devices=() i
    for ((i = 0; i < gpus; i++)); do
        # Not `devices+=("$(device)")`: die in device must end the script.
        item=$(device "$i") || exit 1
        devices+=("$item")
    done
    put "$library_dir/nvml-mock.json" <<JSON
{
  "driver_version": $(json_text "$version"),
  "fabric_info_version": $fabric_info,
  "devices": [$(joined "${devices[@]}")
  ],
  "errors": {$(joined "${errors[@]}")
  },
  "delay_ms": {$(joined "${delays[@]}")
  },
  "hang": [$(joined "${hangs[@]}")
  ]
}
JSON
}

# The name that this machine has for a character major, or nothing.
owner_of() {
    local number name
    while read -r number name; do
        [ "$number" != Block ] || return 0
        [ "$number" != "$1" ] || printf '%s' "$name"
    done </proc/devices
}

# The kernel assigns dynamic majors from 254 down to 234, then from 511 down to
# 384. So drivers that are loaded later get the lowest of these last.
# free_major [MAJOR]...: a free one that is none of these.
free_major() {
    local candidate
    for ((candidate = 384; candidate <= 511; candidate++)); do
        [[ " $* " != *" $candidate "* ]] && [ -z "$(owner_of "$candidate")" ] && echo "$candidate" && return
    done
    die "no major between 384 and 511 is free on this machine"
}

# Writes this machine's /proc/devices with the mock driver's majors.
put_proc_devices() {
    local line ours
    ours=$(printf '%3d nvidia\n%3d nvidiactl\n%3d nvidia-caps\n%3d nvidia-uvm' 195 195 "$caps_major" "$uvm_major")
    [ "$with_major" = no ] || ours+=$(printf '\n%3d nvidia-caps-imex-channels' "$major")
    while IFS= read -r line; do
        case $line in
            *' nvidia' | *' nvidiactl' | *' nvidia-'*) ;;
            '') printf '%s\n\n' "$ours" ;;
            *) printf '%s\n' "$line" ;;
        esac
    done </proc/devices | put "$driver_root/proc/devices"
}

put_proc() {
    put "$driver_root/proc/driver/nvidia/params" <<PARAMS
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
ModifyDeviceFiles: 1
ImexChannelCount: $channels
CreateImexChannel0: 0
PARAMS
    put "$driver_root/proc/driver/nvidia/version" <<VERSION
NVRM version: NVIDIA UNIX Open Kernel Module for $machine  $version  Release Build  (mock)
VERSION
    put "$driver_root/proc/driver/nvidia/capabilities/fabric-imex-mgmt" <<CAPABILITY
DeviceFileMinor: 4323
DeviceFileMode: 256
DeviceFileModify: 1
CAPABILITY
}

# Copies a program's loader, at the path in the program, and its libraries.
put_loader() {
    local file
    put "$driver_root$loader" 755 <"$sysroot$loader"
    for file in $(libraries_of "$1"); do
        put "$library_dir/$(basename "$file")" <"$file"
    done
}

# The libraries of a program. ldd works for this machine's architecture only: it runs the program.
libraries_of() {
    local name
    if [ -z "$sysroot" ]; then
        ldd "$1" | grep -o '/[^ ]*' | grep -v /ld-linux
        return
    fi
    for name in $(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        [ "$name" = "$(basename "$loader")" ] || echo "$sysroot/lib/$triplet/$name"
    done
}

put_imex_programs() {
    local tool
    for tool in nvidia-imex nvidia-imex-ctl; do
        [ -x "$imex_programs/$tool" ] || die "no $tool in $imex_programs; run: cargo build -p imex-mock"
        put_loader "$imex_programs/$tool"
        put "$driver_root/usr/bin/$tool" 755 <"$imex_programs/$tool"
    done
    printf '%s\n' "${imex_faults[@]}" | put "$driver_root/imex-faults"
}

put_tools() {
    put "$driver_root/usr/bin/nvidia-smi" 755 <"$root/hack/nvml-mock/bin/nvidia-smi"
    if [ -n "$imex_programs" ]; then
        put_imex_programs
    else
        imex_state=${imex_state:-READY}
        put "$driver_root/usr/bin/nvidia-imex-ctl" 755 <"$root/hack/nvml-mock/bin/nvidia-imex-ctl"
        rm -f "$driver_root/usr/bin/nvidia-imex" "$driver_root/imex-faults"
    fi
    if [ -n "$imex_state" ]; then
        printf '%s\n%s\n' "$imex_state" "$imex_socket" | put "$driver_root/imex-state"
    else
        rm -f "$driver_root/imex-state"
    fi
    [ -z "$shell" ] || put "$driver_root/bin/sh" 755 <"$shell"
}

if [ -n "$major" ]; then
    [ -z "$(owner_of "$major")" ] || die "major $major belongs to $(owner_of "$major") on this machine; omit --major to use a free one"
else
    major=$(free_major) || exit 1
fi
caps_major=$(free_major "$major") || exit 1
uvm_major=$(free_major "$major" "$caps_major") || exit 1

# Programs find the driver by its library: install it last, remove it first.
mkdir -p "$driver_root/dev"
[ "$with_library" = yes ] || put_library
put_config
put_proc_devices
put_proc
put_tools
[ "$with_library" = no ] || put_library

echo "mock driver $version at $driver_root"
if [ "$with_library" = yes ]; then
    echo "  library        $library_dir/libnvidia-ml.so.1${without:+ (without ${without[*]})}"
else
    echo "  library        none"
fi
echo "  configuration  $library_dir/nvml-mock.json ($gpus GPUs, fabric ${all[state]}, clique ${all[clique]})"
if [ "$with_major" = yes ]; then
    echo "  channels       major $major in $driver_root/proc/devices, $channels in proc/driver/nvidia/params"
else
    echo "  channels       none in $driver_root/proc/devices"
fi
if [ -n "$imex_state" ]; then
    echo "  nvidia-imex    $imex_state${imex_socket:+ at $imex_socket} ($driver_root/imex-state)"
else
    echo "  nvidia-imex    $driver_root/usr/bin/nvidia-imex${imex_faults:+ (${imex_faults[*]})}"
fi
