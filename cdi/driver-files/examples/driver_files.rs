//! Lists the files of the driver in a root, and prints what is wrong with it.
//!
//! ```text
//! cargo run --release -p nvidia-driver-files --example driver-files -- /run/nvidia/driver [VERSION]
//! ```
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the example is a command"
)]

use std::error::Error;
use std::time::Instant;

use nvidia_driver_files::{DriverFiles, RuntimePaths, find_version};
use nvml_session::DriverRoot;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "/".to_owned());
    let root = DriverRoot::new(&path);
    let version = match args.next() {
        Some(version) => version.parse()?,
        None => find_version(&root)?,
    };
    let start = Instant::now();
    let files = DriverFiles::find(&root, &version);
    let edits = files.container_edits(&RuntimePaths {
        driver_root: &path,
        hook: "/usr/local/bin/nvidia-cdi-hook",
    });
    let took = start.elapsed();

    for file in &files.files {
        println!(
            "{:?}\t{}\t{}",
            file.kind, file.container_path, file.host_path
        );
    }
    for link in &files.links {
        println!("Link\t{}\t{}", link.path, link.target);
    }
    for problem in &files.problems {
        eprintln!("{}: {problem}; {}", problem.code(), problem.hint());
    }
    eprintln!("{} mounts in {took:?}", edits.mounts.len());
    Ok(())
}
