//! Versions of a host's programs, as cheaply as they can be had.

use std::process::Command;
use std::time::Duration;

use nvml_clique::command;

use crate::files::HostFiles;

/// The list of installed packages of Debian and its derivatives.
const DPKG: &str = "/var/lib/dpkg/status";

/// What a program has to print its version.
const LIMIT: Duration = Duration::from_secs(2);

/// How much of what it prints may have it.
const MAX_BYTES: usize = 4096;

/// The version of one of the packages `names`, else what the program at `path`
/// prints, which only a program of this host can be run for. `1.7.28`, without what a
/// distribution adds.
pub(crate) fn version(files: &HostFiles, names: &[&str], path: Option<&str>) -> Option<String> {
    let program = || path.filter(|_| files.is_this_host()).and_then(ask);
    of_package(files, names).or_else(program)
}

/// Half-removed packages stay in the list; only installed ones count.
fn of_package(files: &HostFiles, names: &[&str]) -> Option<String> {
    let status = files.text_if_readable(DPKG)?;
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

/// What `path --version` prints: of one that hangs or fails, nothing.
fn ask(path: &str) -> Option<String> {
    let mut command = Command::new(path);
    command.arg("--version");
    let output = command::run(command, LIMIT, MAX_BYTES).ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().find_map(release);
    version.filter(|_| output.status.success())
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
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Stdio;

    use super::*;

    /// The version that a program with this script prints.
    fn version_of(script: &str) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        // Another process writes it: a child that another test starts meanwhile
        // would hold a file that is written here open, and what is open for
        // writing cannot be run.
        let mut write = Command::new("sh");
        write.args(["-c", "printf '%s' \"$1\" > \"$2\"", "sh"]);
        write.arg(format!("#!/bin/sh\n{script}\n")).arg(&path);
        assert!(write.stdin(Stdio::null()).status().unwrap().success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        ask(path.to_str().unwrap())
    }

    #[test]
    fn a_program_is_asked_and_not_waited_for() {
        let version = "echo containerd github.com/containerd v2.1.3 abc";
        assert_eq!(version_of(version).as_deref(), Some("2.1.3"));
        assert_eq!(version_of(&format!("{version}; exit 1")), None);
        // A child that keeps the output open.
        let began = std::time::Instant::now();
        let left = version_of(&format!("sleep 1000 & {version}"));
        assert_eq!(left.as_deref(), Some("2.1.3"));
        assert_eq!(version_of("sleep 1000 & wait"), None);
        assert!(began.elapsed() < Duration::from_secs(60));
        assert_eq!(ask("/nonexistent/containerd"), None);
    }

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
