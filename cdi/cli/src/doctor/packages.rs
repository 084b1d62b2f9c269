//! Versions of a host's programs, as cheaply as they can be had.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::files::Files;

/// Where Debian and its kin list what is installed.
const DPKG: &str = "/var/lib/dpkg/status";

/// What a program has to print its version.
const LIMIT: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The version of one of the packages `names`, else what the program at `path`
/// says, which only one of this host can be asked. `1.7.28`, without what a
/// distribution adds.
pub(super) fn version(files: &Files, names: &[&str], path: Option<&str>) -> Option<String> {
    let program = || path.filter(|_| files.is_this_host()).and_then(ask);
    of_package(files, names).or_else(program)
}

fn of_package(files: &Files, names: &[&str]) -> Option<String> {
    let status = files.text_if_any(DPKG)?;
    status.split("\n\n").find_map(|paragraph| {
        let field = |key: &str| {
            let mut lines = paragraph.lines();
            lines.find_map(|line| line.strip_prefix(key)).map(str::trim)
        };
        let installed = field("Status:").is_none_or(|it| it.ends_with(" installed"));
        let ours = names.contains(&field("Package:")?);
        let version = field("Version:")?;
        // An epoch: `5:28.2.2-1~debian`.
        let version = version.split_once(':').map_or(version, |(_, rest)| rest);
        (ours && installed).then(|| release(version)).flatten()
    })
}

/// Runs `path --version`: one that does not end is killed.
fn ask(path: &str) -> Option<String> {
    let mut child = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let begun = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if begun.elapsed() > LIMIT {
            // An error means that it has ended.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(LOOK_AGAIN);
    }
    let mut said = String::new();
    child
        .stdout
        .take()?
        .take(4096)
        .read_to_string(&mut said)
        .ok()?;
    said.split_whitespace().find_map(release)
}

/// `v1.7.28`, `4.9.3+ds1-1` and the like; `None` if it begins otherwise.
fn release(text: &str) -> Option<String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let numbers = text.get(..end.unwrap_or(text.len()))?.trim_end_matches('.');
    numbers.contains('.').then(|| numbers.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_what_stands_before_a_distributions_own() {
        for (text, found) in [
            ("1.7.28-1~ubuntu.22.04", Some("1.7.28")),
            ("v2.1.3", Some("2.1.3")),
            ("4.9.3+ds1-1", Some("4.9.3")),
            ("28.2.2,", Some("28.2.2")),
            ("containerd", None),
            ("github.com/containerd", None),
        ] {
            assert_eq!(release(text).as_deref(), found, "{text}");
        }
    }
}
