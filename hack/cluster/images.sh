# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with its siblings
# Container images without a registry: makes each node's base images from the host's
# static busybox, and imports archives. Sourced after state.sh.

# shellcheck source=hack/machine.sh
. "$root/hack/machine.sh"

pause_image=localhost/pause:1
busybox_image=localhost/busybox:1
# The name in examples/, so that they can be applied unchanged.
examples_image=docker.io/library/busybox:1

# Writes an OCI archive with these images to $1.
write_base_images() {
    local work=$state/tmp/images
    mkdir -p "$work/root"/{bin,etc,root} "$work/oci/blobs/sha256"
    mkdir -m 1777 "$work/root/tmp"
    cp "$(command -v busybox)" "$work/root/bin/busybox"
    "$work/root/bin/busybox" --list | grep -vx busybox | xargs -I{} ln -s busybox "$work/root/bin/{}"
    echo "root:x:0:0:root:/root:/bin/sh" >"$work/root/etc/passwd"
    echo "root:x:0:" >"$work/root/etc/group"
    tar --create --file "$work/layer.tar" --directory "$work/root" --owner=0 --group=0 --numeric-owner .

    local layer pause busybox example
    layer=$(descriptor "$work" application/vnd.oci.image.layer.v1.tar "$work/layer.tar")
    pause=$(image "$work" "$layer" "$pause_image" '"/bin/sleep", "2147483647"')
    busybox=$(image "$work" "$layer" "$busybox_image" '"/bin/sh"')
    example=$(image "$work" "$layer" "$examples_image" '"/bin/sh"')
    echo '{"imageLayoutVersion": "1.0.0"}' >"$work/oci/oci-layout"
    echo "{\"schemaVersion\": 2, \"manifests\": [$pause, $busybox, $example]}" >"$work/oci/index.json"
    tar --create --file "$1" --directory "$work/oci" .
}

# image WORK LAYER NAME COMMAND: adds an image of one layer, prints its
# descriptor.
image() {
    local work=$1 layer=$2 architecture config
    architecture=$(native_architecture)
    cat >"$work/config" <<-EOT
	{"architecture": "$architecture", "os": "linux", "config": {"Env": ["PATH=/bin"], "Cmd": [$4]},
	 "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum "$work/layer.tar" | cut -d' ' -f1)"]}}
	EOT
    config=$(descriptor "$work" application/vnd.oci.image.config.v1+json "$work/config")
    echo "{\"schemaVersion\": 2, \"config\": $config, \"layers\": [$layer]}" >"$work/manifest"
    descriptor "$work" application/vnd.oci.image.manifest.v1+json "$work/manifest" \
        ", \"annotations\": {\"io.containerd.image.name\": \"$3\"}"
}

# descriptor WORK MEDIA-TYPE FILE [MORE]: adds the file as a blob, prints its
# descriptor.
descriptor() {
    local digest
    digest=$(sha256sum "$3" | cut -d' ' -f1)
    cp "$3" "$1/oci/blobs/sha256/$digest"
    echo "{\"mediaType\": \"$2\", \"digest\": \"sha256:$digest\", \"size\": $(stat --format=%s "$3")${4-}}"
}

# check_architectures FILE ARCH: fails unless the nodes can run the archive's images for ARCH. From an archive for
# several architectures, containerd imports only this machine's image.
check_architectures() {
    local found
    found=$(archive_architectures "$1" | sort -u | xargs)
    case $found in
        "" | "$2") ;;
        *" "*) [ "$2" = "$(native_architecture)" ] || die "$1 has images for $found, of which containerd imports only this machine's; make one with: hack/image.sh --arch $2" ;;
        *) die "$1 has an image for $found, not for $2; make one with: hack/image.sh --arch $2" ;;
    esac
}

# The architectures of the images in an OCI archive; nothing for a docker archive.
archive_architectures() {
    local digest blob config
    for digest in $(archive_file "$1" index.json | grep -o 'sha256:[0-9a-f]\{64\}'); do
        blob=$(archive_file "$1" "blobs/sha256/${digest#*:}")
        if ! grep -q '"manifests"' <<<"$blob"; then
            config=$(grep -o '"config": *{[^}]*}' <<<"$blob" | grep -o 'sha256:[0-9a-f]\{64\}')
            blob=$(archive_file "$1" "blobs/sha256/${config#*:}")
        fi
        grep -o '"architecture": *"[a-z0-9]*"' <<<"$blob" | sed 's/.*"\([a-z0-9]*\)"$/\1/'
    done
}

archive_file() { tar -xOf "$1" "$2" 2>/dev/null || tar -xOf "$1" "./$2" 2>/dev/null; }

# import_archive FILE ARCH PREFIX...: imports an OCI or docker archive into a node's
# containerd; PREFIX runs commands in the node. Waits until kubelet can see the
# images: the CRI plugin labels each image that it manages. ARCH is empty for this
# machine's.
import_archive() {
    local file=$1 arch=$2 output deadline=$((SECONDS + 30))
    shift 2
    local ctr=("$@" ctr --address "$containerd_socket" --namespace k8s.io images)
    output=$("${ctr[@]}" import --local ${arch:+--platform "linux/$arch"} --snapshotter "$(cat "$state/snapshotter")" - <"$file" 2>&1) ||
        { say "$output"; return 1; }
    until ("${ctr[@]}" list 2>/dev/null) | awk 'NR > 1 && !/io.cri-containerd.image=managed/ {missing = 1} END {exit missing}'; do
        [ $SECONDS -lt $deadline ] || { say "containerd's CRI plugin has not picked up the images within 30 s"; return 1; }
        sleep 0.1
    done
}
