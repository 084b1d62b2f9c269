//! What is found in driver roots.
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap outside a test function fails the test too"
)]

mod libraries;
mod links;
mod other_files;
mod problems;
#[path = "../support/mod.rs"]
mod support;
mod versions;

use nvidia_driver_files::DriverFiles;

/// The container paths of all files.
fn container_paths(files: &DriverFiles) -> Vec<&str> {
    let files = files.files.iter();
    files.map(|file| file.container_path.as_str()).collect()
}

/// The host path of the file with a container path.
fn host_path<'a>(files: &'a DriverFiles, container_path: &str) -> Option<&'a str> {
    let mut files = files.files.iter();
    let file = files.find(|file| file.container_path == container_path)?;
    Some(&file.host_path)
}
