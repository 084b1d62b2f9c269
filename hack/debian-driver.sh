#!/usr/bin/env bash
# Unpacks an NVIDIA driver from Debian's own archive, as a driver root to compare file lists on, and prints its path.
#
# usage: hack/debian-driver.sh 535|550 [--arch amd64|arm64] [--links]
#
# --arch: the architecture of the driver; without it, that of this machine.
# --links: also make the links of Debian's package base-files (/lib to /usr/lib, ...) and of its alternatives for
# programs, which are not in the driver's packages.
#
# The files stay in $IMEX_CACHE/debian-driver. apt runs with its own state there: this machine's apt is not
# changed, and nothing is installed.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Where the driver's packages are; firmware and EGL platforms have components of their own.
components="main contrib non-free non-free-firmware"
mirror=http://deb.debian.org/debian
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

case ${1-} in
    535) suite=bookworm ;;
    550) suite=trixie ;;
    *) usage >&2 && die "unknown driver '${1-}'" ;;
esac
shift
kind=root
arch=
while [ $# -gt 0 ]; do
    case $1 in
        --links) kind=linked ;;
        --arch) arch=${2-} && shift ;;
        *) die "unknown option $1 (see --help)" ;;
    esac
    shift
done
need_tools apt-get dpkg-deb

arch=${arch:-$(dpkg --print-architecture)}
case $arch in amd64 | arm64) ;; *) die "Debian has no driver for '$arch'" ;; esac
base=$IMEX_CACHE/debian-driver/$suite-$arch

own_apt() {
    mkdir -p "$base/state/lists/partial" "$base/cache/archives/partial" "$base/packages"
    touch "$base/state/status"
    echo "deb [signed-by=$keyring arch=$arch] $mirror $suite $components" >"$base/sources.list"
    cat >"$base/apt.conf" <<APT
Dir::State "$base/state";
Dir::State::status "$base/state/status";
Dir::Cache "$base/cache";
Dir::Etc::SourceList "$base/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
APT::Architecture "$arch";
APT::Architectures "$arch";
APT::Sandbox::User "root";
APT
    export APT_CONFIG=$base/apt.conf
}

# The packages of the driver's source that have files for user space.
packages() {
    apt-cache dumpavail |
        awk -v RS= '/\nSource: nvidia-graphics-drivers[ \n]/ || /^Package: nvidia-driver\n/ { print $2 }' |
        grep -vE 'dkms|source|detect|full|legacy-check|kernel-support|suspend'
    echo libnvidia-egl-wayland1
    echo libnvidia-egl-gbm1
}

fetch() {
    own_apt
    apt-get update -qq >&2
    local names
    names=$(packages)
    [ "$(wc -l <<<"$names")" -gt 20 ] || die "$mirror $suite has only these packages of the driver: $names"
    # shellcheck disable=SC2086 # words on purpose
    (cd "$base/packages" && apt-get download -qq $names >&2)
}

unpack() {
    local package
    rm -rf "$base/root.new"
    mkdir -p "$base/root.new"
    for package in "$base"/packages/*.deb; do
        dpkg-deb -x "$package" "$base/root.new"
    done
    rm -r "$base/packages"
    mv -T "$base/root.new" "$base/root"
}

# The same files with more links.
copy_with_links() {
    rm -rf "$base/linked.new"
    cp -al "$base/root" "$base/linked.new"
    add_links "$base/linked.new"
    mv -T "$base/linked.new" "$base/linked"
}

# add_links ROOT: only those that the packages leave room for.
add_links() {
    local dir program
    for dir in bin sbin lib lib64; do
        mkdir -p "$1/usr/$dir"
        [ -e "$1/$dir" ] || ln -s "usr/$dir" "$1/$dir"
    done
    mkdir -p "$1/etc/alternatives"
    for program in "$1"/usr/lib/nvidia/current/nvidia-*; do
        program=${program##*/}
        [ -x "$1/usr/lib/nvidia/current/$program" ] || continue
        [ -e "$1/usr/bin/$program" ] || [ -L "$1/usr/bin/$program" ] || ln -s "/etc/alternatives/nvidia--$program" "$1/usr/bin/$program"
        ln -sfn "/usr/lib/nvidia/current/$program" "$1/etc/alternatives/nvidia--$program"
    done
}

mkdir -p "$base"
{
    flock 8
    if [ ! -d "$base/root" ]; then
        fetch
        unpack
    fi
    [ "$kind" = root ] || [ -d "$base/linked" ] || copy_with_links
} 8>"$base/lock"
echo "$base/$kind"
