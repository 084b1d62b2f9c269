#!/usr/bin/env bash
# Passes the tests. What CI runs.
#
#   hack/test.sh --fast   no root, no cluster: format, links and keys in the documentation, lints,
#                         dependencies, requirements, unit tests, chart render, modes, packages;
#                         the first run builds the cluster's programs even so, for helm
#   hack/test.sh          all of that, then what needs root: an API server that
#                         vanishes, every fault at every step of the kubelet plugin,
#                         the behaviours that must never break on a real cluster
#                         (see hack/e2e.sh), and the commands of the guides
#   hack/test.sh --arch arm64|amd64
#                         the unit tests and doc examples of all library crates as programs of that
#                         architecture, in an emulator (hack/test-arch.sh)
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

cargo_deny_version=0.20.2

step() { say "== $* (after $((SECONDS / 60)) min)"; }

# What runs beside the steps, by name, and its output: tests mostly wait, and leave the CPUs to it.
declare -A beside=()
logs=$(mktemp -d)
trap 'end_beside; rm -rf "$logs"' EXIT

# start_beside NAME COMMAND...
start_beside() {
    local name=$1
    shift
    # A process group of its own, to end all of it.
    set -m
    # The steps come first, but tests in an emulator need their share, too, or their deadlines pass.
    nice -n 5 "$@" >"$logs/$name" 2>&1 &
    set +m
    beside[$name]=$!
}

# join NAME: waits for it, shows its output, and fails if it did.
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

# A tool from the crate registry, at one version, outside the clone.
cargo_tool() {
    local name=$1 version=$2
    PATH=$IMEX_CACHE/tools/bin:$PATH
    export PATH
    if ! "$name" --version 2>/dev/null | grep -qF "$version"; then
        # It runs for seconds: not worth the optimizer's minutes.
        say "installing $name $version into $IMEX_CACHE/tools: once, 2 minutes on 2 cores"
        cargo install --quiet --debug --locked --root "$IMEX_CACHE/tools" --version "$version" "$name"
    fi
}

fast() {
    need_tools cargo cc g++ go shellcheck
    start_beside cluster-programs hack/cluster/build.sh

    step "format"
    cargo fmt --all --check

    step "scripts"
    git ls-files -z '*.sh' .ci/run hack/cluster/nvidia-imex hack/nvml-mock/bin | xargs -0 shellcheck --external-sources --severity=warning

    step "documentation: links, anchors, tables, keys of the chart"
    hack/docs.sh --check

    step "units of systemd"
    hack/units.sh

    step "dependencies: licences, sources, duplicates"
    cargo_tool cargo-deny "$cargo_deny_version"
    cargo fetch --locked --quiet
    cargo deny --offline --log-level error check bans licenses sources

    step "lints"
    cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
    cargo clippy --quiet --locked -p imex-cdi --features oci,nri --all-targets -- -D warnings
    # A workspace of its own: libFuzzer comes with it.
    (cd hack/fuzz && cargo fmt --check && cargo check --quiet --locked --target-dir "$target_dir")
    ! git grep -nE '^\s*(//[/!]|#).*```.*(ignore|no_run)' -- '*.rs' || die "a doc example that does not run proves nothing"
    # READMEs are doc examples too. Some need a driver or a kubelet, and only compile.
    ! git grep -nE '^\s*```.*ignore' -- '*.md' || die "a doc example that does not compile proves nothing"

    step "structure: no module circles, generated documentation up to date"
    cargo run --quiet --locked -p architecture -- check

    step "requirements: each is cited by code and by a test"
    cargo run --quiet --locked -p requirements -- check

    step "unit tests and doc examples"
    cargo test --quiet --locked --workspace --exclude imex-cdi --no-run
    # Built in a place of its own: cargo would wait for cargo.
    [ "$(uname -m)" = aarch64 ] ||
        start_beside arm64 env IMEX_EMULATION=optional CARGO_TARGET_DIR="$target_dir/arm64" \
            hack/test-arch.sh arm64 durable-file dra-checkpoint imex-cdi nvml-clique
    # The tests of nri-plugin use Go's NRI library.
    IMEX_REQUIRE_GO=1 cargo test --locked --workspace --exclude imex-cdi

    step "every source file is compiled"
    every_source_file_is_compiled

    step "imex-cdi beside Go's libraries and in runc"
    cdi_beside_others

    step "man pages and completions"
    hack/cli-docs.sh

    step "documentation"
    # Not CRATE/testing: that asks those that depend on the crate, and where there are none
    # cargo leaves the feature out and says nothing.
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

    step "the doctor asks containerd itself"
    CONTAINERD=$programs/bin/containerd cargo test --quiet --locked -p host-doctor --lib -- --ignored containerd_itself

    # The unit tests have built both programs.
    step "modes: both programs and the chart"
    cargo test --quiet --locked --workspace --exclude imex-cdi --test modes -- --ignored

    step "packages: each crate alone"
    packaged_crates_build
}

# A file that no `mod` names is no error for the compiler, and its tests are none that fail. By the files that rustc
# has read: one that it read for an earlier commit counts in a target directory that is not new.
every_source_file_is_compiled() {
    local forgotten
    forgotten=$(comm -23 <(git ls-files -- '*.rs' ':!hack/fuzz/src' ':!hack/fuzz/targets' | sort) <(
        find "$target_dir"/debug/{deps,build,examples} -name '*.d' -exec cat {} + | tr ' ' '\n' | grep '\.rs$' | sort -u |
            xargs realpath -q --relative-to=. | sort -u
    ))
    [ -z "$forgotten" ] || die "no module or target has these files: $forgotten"
}

# Each crate as its users get it, with the features of its own dependencies only: a file that the package
# leaves out is missing here. Not `cargo package`'s own verification: that takes
# a dependency of the same workspace from where CARGO_HOME unpacked it for an
# earlier commit, as long as the version is the same.
packaged_crates_build() {
    local unpacked=$target_dir/packaged name
    rm -rf "$target_dir/package" "$unpacked"
    mkdir -p "$unpacked"
    cargo package --quiet --locked --allow-dirty --no-verify "${published[@]/#/--package=}"
    {
        printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n[patch.crates-io]\n'
        for name in "${published[@]}"; do
            mkdir "$unpacked/$name"
            # Without the archive's times, by which cargo would see no change.
            tar -xmzf "$target_dir/package/$name"-[0-9]*.crate --strip-components=1 -C "$unpacked/$name"
            printf '%s = { path = "%s" }\n' "$name" "$name"
        done
    } >"$unpacked/Cargo.toml"
    # The same versions of everything else. Not --locked: the lock file names
    # crates that are not here.
    cp Cargo.lock "$unpacked"
    local check=(cargo check --quiet --manifest-path "$unpacked/Cargo.toml" --target-dir "$target_dir")
    for name in "${published[@]}"; do "${check[@]}" -p "$name"; done
    for name in imex-cdi/inject dra-kubelet/testing nri-plugin/testing; do "${check[@]}" -p "${name%/*}" --features "$name"; done
}

# With the features for Rust runtimes and for plugins of NRI: every
# test of the crate, and none may pass because a program is missing.
cdi_beside_others() {
    # Making device nodes and containers takes root.
    if [ "$(id -u)" = 0 ]; then
        need_tools runc busybox
        export IMEX_REQUIRE_RUNC=1
    fi
    IMEX_REQUIRE_GO=1 cargo test --quiet --locked -p imex-cdi --features oci,nri
    cargo test --quiet --locked -p cdi-gen --test runc
}

if [ $# -gt 2 ] || [[ $# = 2 && $1 != --arch ]]; then die "too many arguments; usage: hack/test.sh [--fast | --arch ARCH]"; fi
case ${1-} in
    --fast) fast ;;
    "")
        fast
        step "connections: an API server that vanishes"
        need_tools ip nft unshare
        cargo test --quiet --locked -p daemon-runtime --test dead_peer -- --ignored
        step "faults: the kubelet plugin's own system calls, its API server, its death"
        need_tools strace unshare
        # Its tables are worth reading.
        cargo test --quiet --locked -p compute-domain-plugin --test faults -- --ignored --nocapture
        step "behaviours that must never break, on a real cluster"
        hack/e2e.sh --must
        step "documentation: its commands"
        hack/docs.sh docs/installation.md docs/operation.md
        ;;
    --arch) hack/test-arch.sh "${2-}" ;;
    *) die "unknown argument $1; usage: hack/test.sh [--fast | --arch ARCH]" ;;
esac
if [ -n "${beside[arm64]-}" ]; then
    step "unit tests and doc examples on arm64, in an emulator"
    join arm64
fi
say "all tests passed"
