# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with its siblings
# The cluster's directory ($cgroup) in every cgroup hierarchy. It becomes the root
# of the cluster's cgroup namespace, so that kubelet, containerd and runc neither
# see nor change the host's cgroups. Works on cgroup v1, v1 with a v2 mount beside
# it (hybrid), and v2. Sourced after state.sh.

# The controllers that the cluster needs on a pure v2 host; there, a BPF program replaces devices.
needed_v2_controllers="cpu memory pids"

# Prints each hierarchy mounted under /sys once: MOUNTPOINT TYPE OPTIONS. OPTIONS
# are those of a v1 mount ("cpu,cpuacct", "none,name=systemd") or "-".
cgroup_hierarchies() {
    awk '
        $5 ~ "^/sys/" {
            for (i = 7; $i != "-"; i++);
            type = $(i + 1)
            if (type !~ /^cgroup2?$/ || seen[$3]++) next
            options = ""
            count = split($(i + 3), words, ",")
            for (w = 1; w <= count && type == "cgroup"; w++) {
                if (words[w] ~ /^name=/) options = options ",none," words[w]
                else if (words[w] in v1) options = options "," words[w]
            }
            print $5, type, options == "" ? "-" : substr(options, 2)
        }
        FNR != NR { next }
        { v1[$1] }
    ' /proc/cgroups /proc/self/mountinfo
}

is_pure_v2() { [ "$(stat --file-system --format=%T /sys/fs/cgroup)" = cgroup2fs ]; }

# Moves only the calling process into the cluster's directory of each hierarchy.
join_cgroups() {
    local at type
    if is_pure_v2; then enable_v2_controllers; fi
    while read -r at type _; do
        mkdir -p "$at/$cgroup"
        if [ -e "$at/cpuset.cpus" ] && [ "$type" = cgroup ]; then # empty sets admit no process
            cat "$at/cpuset.cpus" >"$at/$cgroup/cpuset.cpus"
            cat "$at/cpuset.mems" >"$at/$cgroup/cpuset.mems"
        fi
        echo 0 >"$at/$cgroup/cgroup.procs"
    done < <(cgroup_hierarchies)
}

# Enables the needed controllers below the root of a v2 host. First records those
# that were disabled, so that `remove_cgroups` can disable them again.
enable_v2_controllers() {
    local controller enabled
    enabled=" $(cat /sys/fs/cgroup/cgroup.subtree_control) "
    for controller in $needed_v2_controllers; do
        case $enabled in *" $controller "*) continue ;; esac
        echo "$controller" >>"$state/enabled-controllers"
        echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control ||
            { say "the cgroup controller $controller cannot be enabled in /sys/fs/cgroup; on the host run: echo +$controller > /sys/fs/cgroup/cgroup.subtree_control"; return 1; }
    done
}

# Inside the cgroup namespace: remounts /sys, with hierarchies that start at the
# cluster's directory and the network devices of this network namespace.
mount_sys() {
    local hierarchies at type options v2=
    hierarchies=$(cgroup_hierarchies)
    if is_pure_v2; then v2=1; fi
    # Lazy: a command that entered early may still use it.
    umount --recursive --lazy /sys
    mount -t sysfs sysfs /sys
    [ -n "$v2" ] || mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
    while read -r at type options; do
        mkdir -p "$at"
        case $type in
            cgroup) mount -t cgroup -o "$options" cgroup "$at" ;;
            cgroup2) mount -t cgroup2 cgroup2 "$at" ;;
        esac
    done <<<"$hierarchies"
}

# On v2, a cgroup that enables controllers for its children must not contain
# processes: the calling process, still the only one, moves to a leaf first.
divide_v2_root() {
    is_pure_v2 || return 0
    mkdir -p /sys/fs/cgroup/supervisor
    echo 0 >/sys/fs/cgroup/supervisor/cgroup.procs
    sed 's/[^ ]*/+&/g' /sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control
}

# On the host, after the last process has ended: removes the directories, deepest
# first. A cgroup may stay busy for a moment.
remove_cgroups() {
    local at controller deadline=$((SECONDS + 10))
    while read -r at _; do
        until [ ! -d "$at/$cgroup" ] || find "$at/$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null; do
            [ $SECONDS -lt $deadline ] || die "$at/$cgroup is still in use; its processes: $(find "$at/$cgroup" -name cgroup.procs -exec cat {} + | tr '\n' ' ')"
            sleep 0.05
        done
    done < <(cgroup_hierarchies)
    [ -e "$state/enabled-controllers" ] || return 0
    while read -r controller; do
        echo "-$controller" >/sys/fs/cgroup/cgroup.subtree_control || true # in use by others now
    done <"$state/enabled-controllers"
    rm "$state/enabled-controllers"
}
