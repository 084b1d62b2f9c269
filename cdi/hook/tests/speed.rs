//! The hook's time from start to end, beside `ldconfig`'s own in the same root, and NVIDIA's four hooks.
//!
//! ```sh
//! cargo build --release --target x86_64-unknown-linux-musl -p nvidia-cdi-hook
//! IMEX_HOOK=$PWD/target/x86_64-unknown-linux-musl/release/nvidia-cdi-hook \
//!     cargo test -p nvidia-cdi-hook --test speed -- --ignored --nocapture
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]
#![expect(clippy::print_stdout, reason = "times are what it is for")]

#[path = "support/container.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod container;
#[path = "support/nvidia.rs"]
mod nvidia;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::container::{Container, HOOK, is_root};

const ROUNDS: usize = 40;
/// Names the bundle for this test's process in a mount namespace.
const BUNDLE: &str = "IMEX_SPEED_BUNDLE";
const NVIDIA: &str = "IMEX_SPEED_NVIDIA";

const LINKS: &str = "--link libcuda.so.1::/driver/lib/libcuda.so --link libGLX_nvidia.so.0::/usr/lib/libGLX_indirect.so.0";
const DRIVER: &str = "--host-driver-version 575.57.08";
const FOLDERS: &str = "--folder /driver/lib";

#[test]
#[ignore = "prints times, and is judged by a person"]
fn the_hook_takes_milliseconds_beside_ldconfig() {
    if let Some(bundle) = std::env::var_os(BUNDLE) {
        return measure(Path::new(&bundle));
    }
    if !is_root() {
        return;
    }
    let container = Container::new();
    for number in 0..40 {
        container.library(&format!("/driver/lib/libdriver{number}.so.575.57.08"));
    }
    container.write("/etc/debian_version", "12\n");
    let nvidia = nvidia::build("NVIDIA's hooks were not measured");
    let script = "mount --bind rootfs rootfs; exec \"$0\" --ignored --nocapture";
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(BUNDLE, container.path())
        .env(
            NVIDIA,
            nvidia
                .as_ref()
                .map_or_else(|| Path::new(""), |it| it.path()),
        )
        .current_dir(container.path())
        .status();
    assert!(status.unwrap().success());
}

fn measure(bundle: &Path) {
    let hook = std::env::var_os("IMEX_HOOK").map_or_else(|| PathBuf::from(HOOK), PathBuf::from);
    let nvidia = PathBuf::from(std::env::var_os(NVIDIA).unwrap());
    let ldconfig = "-r rootfs -f /etc/ld.so.conf -C /etc/ld.so.cache";
    let container = format!("container {LINKS} {FOLDERS} {DRIVER}");
    let four = [
        format!("create-symlinks {LINKS}"),
        format!("enable-cuda-compat {DRIVER}"),
        format!("update-ldcache {FOLDERS}"),
        "disable-device-node-modification".to_owned(),
    ];
    let mut times: [Vec<Duration>; 4] = Default::default();
    for round in 0..ROUNDS + 3 {
        let mut taken = [Duration::ZERO; 4];
        taken[1] = run(&hook, &container, bundle);
        taken[2] = four.iter().map(|it| run(&hook, it, bundle)).sum();
        if nvidia.is_file() {
            taken[3] = four.iter().map(|it| run(&nvidia, it, bundle)).sum();
        }
        taken[0] = run(Path::new("/sbin/ldconfig"), ldconfig, bundle);
        // The first rounds fill the page cache.
        if round >= 3 {
            for (all, one) in times.iter_mut().zip(taken) {
                all.push(one);
            }
        }
    }
    println!("hook: {}", hook.display());
    let names = [
        "ldconfig alone",
        "container",
        "NVIDIA's commands",
        "NVIDIA's hooks",
    ];
    for (name, mut times) in names.into_iter().zip(times) {
        times.sort();
        let [least, median, p90] =
            [0, ROUNDS / 2, ROUNDS * 9 / 10].map(|at| times[at].as_secs_f64() * 1e3);
        println!("{name:18} least {least:6.2} ms, median {median:6.2} ms, p90 {p90:6.2} ms");
    }
}

fn run(program: &Path, arguments: &str, bundle: &Path) -> Duration {
    let mut command = Command::new(program);
    command
        .args(arguments.split_whitespace())
        .current_dir(bundle);
    command.stdin(File::open(bundle.join("state.json")).unwrap());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().unwrap();
    let taken = start.elapsed();
    assert!(status.success(), "{} {arguments}", program.display());
    taken
}
