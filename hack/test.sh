#!/usr/bin/env bash
# Runs the tests. CI runs this script.
#
#   hack/test.sh --fast   without root and cluster: format, links and keys in the documentation, lints,
#                         dependencies, requirements, unit tests, chart rendering, modes, packages;
#                         the first run still builds the cluster's programs, for helm
#   hack/test.sh          all of that, then tests that need root: loss of the API
#                         server, every fault at every step of the kubelet plugin,
#                         the essential cluster tests (hack/e2e.sh --must), and the
#                         commands of the guides
#   hack/test.sh --arch arm64|amd64
#                         the unit tests and doc examples of all library crates as programs of that
#                         architecture, in an emulator (hack/test-arch.sh). For arm64, also GPU containers in a
#                         virtual machine (hack/test-vm.sh)
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

cargo_deny_version=0.20.2

step() { say "== $* (after $((SECONDS / 60)) min)"; }

# Background jobs by name, and their output. Tests mostly wait, so the CPUs are free for these jobs.
declare -A beside=()
logs=$(mktemp -d)
trap 'end_beside; rm -rf "$logs"' EXIT

# start_beside NAME COMMAND...
start_beside() {
    local name=$1
    shift
    # In its own process group, so that end_beside can end all its processes.
    set -m
    # The steps have priority, but tests in an emulator need enough CPU time to meet their deadlines.
    nice -n 5 "$@" >"$logs/$name" 2>&1 &
    set +m
    beside[$name]=$!
}

# join NAME: waits for the job, prints its output, and fails if the job failed.
join() {
    local pid=${beside[$1]} status=0
    unset "beside[$1]"
    wait "$pid" || status=$?
    cat "$logs/$1"
    [ $status = 0 ] || die "$1 failed; its output is above"
}

end_beside() {
    local pid
    for pid in "${beside[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
    wait
}

# cargo_tool NAME VERSION: installs a tool from the crate registry outside the clone.
cargo_tool() {
    local name=$1 version=$2
    PATH=$IMEX_CACHE/tools/bin:$PATH
    export PATH
    if ! "$name" --version 2>/dev/null | grep -qF "$version"; then
        # --debug: it runs for seconds, and optimization would take minutes.
        say "installing $name $version into $IMEX_CACHE/tools: once, 2 minutes on 2 cores"
        cargo install --quiet --debug --locked --root "$IMEX_CACHE/tools" --version "$version" "$name"
    fi
}

# in_workspace ARGUMENT...: runs tests of the workspace, which the unit tests have built. With -p, cargo would build dozens of
# crates again, with the features of that package only.
in_workspace() { cargo test --quiet --locked --workspace --exclude imex-cdi "$@"; }

fast() {
    need_tools cargo cc g++ go shellcheck
    start_beside cluster-programs hack/cluster/build.sh

    step "format"
    cargo fmt --all --check

    step "scripts"
    git ls-files -z '*.sh' .ci/run hack/cluster/nvidia-imex hack/nvml-mock/bin hack/vm | xargs -0 shellcheck --external-sources --severity=warning

    step "documentation: links, anchors, tables, keys of the chart"
    hack/docs.sh --check

    step "systemd units"
    hack/units.sh

    step "dependencies: licences, sources, duplicates"
    cargo_tool cargo-deny "$cargo_deny_version"
    cargo fetch --locked --quiet
    cargo deny --offline --log-level error check bans licenses sources

    step "lints"
    cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
    cargo clippy --quiet --locked -p imex-cdi --features oci,nri --all-targets -- -D warnings
    # A separate workspace, because it depends on libFuzzer.
    (cd hack/fuzz && cargo fmt --check && cargo check --quiet --locked --target-dir "$target_dir")
    ! git grep -nE '^\s*(//[/!]|#).*```.*(ignore|no_run)' -- '*.rs' || die "doc examples must run: remove ignore and no_run"
    # READMEs are doc examples, too. Some need a driver or a kubelet and only compile.
    ! git grep -nE '^\s*```.*ignore' -- '*.md' || die "doc examples in READMEs must compile: remove ignore"

    step "structure: no module circles, generated documentation up to date"
    cargo run --quiet --locked -p architecture -- check

    step "requirements: each is cited by code and by a test"
    cargo run --quiet --locked -p requirements -- check

    step "unit tests and doc examples"
    cargo test --quiet --locked --workspace --exclude imex-cdi --no-run
    # In its own target directory: otherwise one cargo waits for the other.
    [ "$(uname -m)" = aarch64 ] ||
        start_beside arm64 env IMEX_EMULATION=optional CARGO_TARGET_DIR="$target_dir/arm64" \
            hack/test-arch.sh arm64 durable-file dra-checkpoint imex-cdi nvml-session nvml-clique nvidia-driver-files
    # The tests of nri-plugin use Go's NRI library.
    IMEX_REQUIRE_GO=1 cargo test --locked --workspace --exclude imex-cdi

    step "every source file is compiled"
    every_source_file_is_compiled

    step "imex-cdi compared with the Go libraries and runc"
    cdi_beside_others

    step "man pages and completions"
    hack/cli-docs.sh

    step "documentation"
    # Not CRATE/testing: cargo applies that only through crates that depend on CRATE, and silently omits the feature
    # if there are none.
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --workspace --features testing --no-deps
    for package in dra_kubelet nri_plugin; do
        [ -f "$target_dir/doc/$package/testing/index.html" ] || die "$package's documentation lacks its testing module"
    done

    step "chart"
    local programs
    join cluster-programs
    programs=$(hack/cluster/build.sh)
    export HELM=$programs/bin/helm
    deployments/helm/test.sh

    step "Containerfile"
    deployments/container/test.sh

    step "alerts and dashboard"
    deployments/monitoring/test.sh

    step "the doctor with a real containerd"
    CONTAINERD=$programs/bin/containerd in_workspace --lib -- --ignored containerd_itself

    step "modes: both programs and the chart"
    in_workspace --test modes -- --ignored

    step "packages: each crate alone"
    packaged_crates_build
}

# The compiler does not report a file without a `mod`, and its tests never run. This compares with the files that rustc
# has read. In a target directory that is not new, a file read for an earlier commit counts.
every_source_file_is_compiled() {
    local forgotten
    forgotten=$(comm -23 <(git ls-files -- '*.rs' ':!hack/fuzz/src' ':!hack/fuzz/targets' | sort) <(
        find "$target_dir"/debug/{deps,build,examples} -name '*.d' -exec cat {} + | tr ' ' '\n' | grep '\.rs$' | sort -u |
            xargs realpath -q --relative-to=. | sort -u
    ))
    [ -z "$forgotten" ] || die "these files belong to no module or target: $forgotten"
}

# Builds each crate as its users get it, with the features of its own dependencies only. Finds files missing in the
# package. `cargo package` itself verifies less: if the version is the same, it uses workspace dependencies that
# CARGO_HOME has unpacked for an earlier commit.
packaged_crates_build() {
    local unpacked=$target_dir/packaged name
    rm -rf "$target_dir/package" "$unpacked"
    mkdir -p "$unpacked"
    cargo package --quiet --locked --allow-dirty --no-verify "${published[@]/#/--package=}"
    {
        printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n[patch.crates-io]\n'
        for name in "${published[@]}"; do
            mkdir "$unpacked/$name"
            # -m: with the archive's timestamps, cargo would see no change.
            tar -xmzf "$target_dir/package/$name"-[0-9]*.crate --strip-components=1 -C "$unpacked/$name"
            printf '%s = { path = "%s" }\n' "$name" "$name"
        done
    } >"$unpacked/Cargo.toml"
    # The same versions of all other crates. Not --locked: the lock file also names crates that are missing here.
    cp Cargo.lock "$unpacked"
    local check=(cargo check --quiet --manifest-path "$unpacked/Cargo.toml" --target-dir "$target_dir")
    for name in "${published[@]}"; do "${check[@]}" -p "$name"; done
    for name in imex-cdi/inject dra-kubelet/testing nri-plugin/testing; do "${check[@]}" -p "${name%/*}" --features "$name"; done
}

# Runs all tests of imex-cdi, with the features for Rust runtimes and NRI plugins. No test may pass because a
# program is missing.
cdi_beside_others() {
    # Creating device nodes and containers needs root.
    if [ "$(id -u)" = 0 ]; then
        # Not podman: cdi-gen doctor would report it on the nodes of the test cluster, which are on this machine.
        need_tools runc busybox
        export IMEX_REQUIRE_RUNC=1
    fi
    IMEX_REQUIRE_GO=1 cargo test --quiet --locked -p imex-cdi --features oci,nri
    in_workspace --test runc --test gpu_container
}

if [ $# -gt 2 ] || [[ $# = 2 && $1 != --arch ]]; then die "too many arguments; usage: hack/test.sh [--fast | --arch ARCH]"; fi
case ${1-} in
    --fast) fast ;;
    "")
        fast
        step "connections: loss of the API server"
        need_tools ip nft unshare
        in_workspace --test dead_peer -- --ignored
        step "faults: the kubelet plugin's system calls fail, its API server fails, it is killed"
        need_tools strace unshare
        # --nocapture prints the tables of faults.
        in_workspace --test faults -- --ignored --nocapture
        step "essential tests on a real cluster"
        hack/e2e.sh --must
        step "documentation: commands of the guides"
        hack/docs.sh docs/installation.md docs/operation.md
        ;;
    --arch)
        hack/test-arch.sh "${2-}"
        [[ $2 != arm64 || $(uname -m) = aarch64 ]] || hack/test-vm.sh
        ;;
    *) die "unknown argument $1; usage: hack/test.sh [--fast | --arch ARCH]" ;;
esac
if [ -n "${beside[arm64]-}" ]; then
    step "unit tests and doc examples on arm64, in an emulator"
    join arm64
fi
say "all tests passed"
