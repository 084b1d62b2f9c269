# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with the scripts that source it
# Runs programs of another CPU architecture in emulators that the kernel starts (binfmt_misc).
# Sourced after hack/machine.sh.

binfmt=/proc/sys/fs/binfmt_misc

# Names for register_emulator. The name says what removes the registration: this script (by its process id), or
# hack/cluster.sh down for the cluster of this cgroup name (hack/cluster/state.sh).
emulator_of_script() { echo "imex-dra-script-$(pid_namespace)-$$-$machine"; }
emulator_of_cluster() { echo "$1-$machine"; }

pid_namespace() { stat -L -c %i /proc/self/ns/pid; }

# register_emulator NAME: until unregister_emulator, the kernel runs programs of the architecture in an emulator.
# It keeps the emulator open (flag F), so programs also run in a container, which lacks the emulator's file.
# If registration fails, sets why and fails. Leaves registrations of others alone.
register_emulator() {
    local name=$1 magic mask refused
    why="registering an emulator takes root: run it with sudo --preserve-env=PATH"
    [ "$(id -u)" = 0 ] || return 1
    if ! command -v "$emulator" >/dev/null 2>&1; then
        why="$emulator is missing; as root run: apt-get install qemu-user-static"
        (need_tools "$emulator") 2>/dev/null || return 1
        why="$emulator is missing or not executable, although qemu-user-static is installed; as root run: apt-get install --reinstall qemu-user-static"
        command -v "$emulator" >/dev/null 2>&1 || return 1
    fi
    if [ ! -e $binfmt/status ]; then
        why="binfmt_misc cannot be mounted: the kernel module is not loaded (run: modprobe binfmt_misc), or this container may not mount"
        mount -t binfmt_misc imex-dra $binfmt 2>/dev/null || return 1
    fi
    why="binfmt_misc is disabled on this machine; enable it with: echo 1 > $binfmt/status"
    [ "$(cat $binfmt/status)" = enabled ] || return 1
    case $architecture in
        arm64) magic='\xb7\x00' ;;
        amd64) magic='\x3e\x00' ;;
    esac
    # A program or shared object, 64 bits, little-endian.
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00'$magic
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    unregister_killed
    [ ! -e "$binfmt/$name" ] || echo -1 >"$binfmt/$name"
    if ! refused=$( (printf '%s' ":$name:M::$magic:$mask:$(command -v "$emulator"):F" >$binfmt/register) 2>&1); then
        why="the kernel does not register $emulator in $binfmt: ${refused##*: }"
        return 1
    fi
}

# Removes registrations of killed scripts of this PID namespace.
unregister_killed() {
    local entry pid
    for entry in "$binfmt/imex-dra-script-$(pid_namespace)"-*; do
        pid=$(cut -d- -f5 <<<"${entry##*/}")
        if [ -e "$entry" ] && [ ! -e "/proc/$pid" ]; then echo -1 >"$entry"; fi
    done
}

# unregister_emulator NAME: does nothing if it is not registered. After the last registration, unmounts binfmt_misc if
# these scripts have mounted it.
unregister_emulator() {
    [ ! -e "$binfmt/$1" ] || echo -1 >"$binfmt/$1"
    unregister_killed
    if grep -q "^imex-dra $binfmt " /proc/mounts && [ -z "$(find $binfmt -mindepth 1 ! -name register ! -name status)" ]; then
        umount $binfmt
    fi
}
