//! Checks that runtimes read the CDI directories, and every file in them.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `cdi-directory-*` (codes of imex-cdi) | error | runtimes skip the directory: it is a link, not a directory, or unreadable |
//! | `cdi-directory-absent` | warning, or info without the plugin | the directory into which drivers write does not exist |
//! | `cdi-directory-mode`, `cdi-spec-mode` | warning, or info | others may not read it, or may write it; an info for a claim's spec that others may not read |
//! | `cdi-leftover` | warning | a stale temporary file |
//! | `cdi-spec-in-subdirectory` | warning, or info | a spec that runtimes do not read; a warning if no other file defines its devices |
//! | `cdi-spec-extension` | warning | nearly `.json` or `.yaml`: runtimes do not read it |
//! | `cdi-spec-hidden` | warning | a spec that runtimes read, but `ls` does not show |

use std::ffi::OsStr;
use std::path::Path;

use crate::diagnosis::AreaReport;
use crate::facts::directories::{
    CdiDirectory, CdiDirectoryState, DirectoryFacts, FileMode, NestedSpec, is_spec_name,
};
use crate::finding::{Finding, Severity};
use crate::spec_node::KUBELET_PLUGINS;
use crate::text::shell_quote;

const OTHERS_READ: u32 = 0o004;
const OTHERS_LIST: u32 = 0o005;
const OTHERS_WRITE: u32 = 0o002;

/// `has_plugin`: whether there is a driver that writes specs.
pub(super) fn check(facts: &DirectoryFacts, has_plugin: bool) -> AreaReport {
    let mut findings = Vec::new();
    let last = facts.directories.len().saturating_sub(1);
    for (index, directory) in facts.directories.iter().enumerate() {
        // Runtimes need none of them; drivers write into the last.
        let if_absent = (index == last).then(|| Severity::for_claims(has_plugin));
        findings.extend(check_directory(directory, if_absent));
        if let CdiDirectoryState::Listed { names, nested, .. } = &directory.state {
            findings.extend(nested.iter().map(|spec| in_subdirectory(directory, spec)));
            let path = &directory.path;
            let names = names.iter();
            findings.extend(names.filter_map(|name| check_name(&format!("{path}/{name}"), name)));
        }
    }
    findings.extend(facts.files.iter().filter_map(check_file_mode));
    AreaReport::new(summary(facts), findings)
}

fn summary(facts: &DirectoryFacts) -> String {
    let listed = facts
        .directories
        .iter()
        .filter(|it| matches!(it.state, CdiDirectoryState::Listed { .. }));
    let paths: Vec<&str> = listed.map(|it| it.path.as_str()).collect();
    match paths.as_slice() {
        [] => "no CDI directory can be read".to_owned(),
        _ => paths.join(", "),
    }
}

/// For runtimes, a missing directory is as good as an empty one, but not for the drivers that
/// write into it.
fn check_directory(directory: &CdiDirectory, if_absent: Option<Severity>) -> Option<Finding> {
    let path = &directory.path;
    match &directory.state {
        CdiDirectoryState::Listed { mode, .. } => {
            check_mode(path, *mode, OTHERS_LIST, "cdi-directory-mode", "0755")
        }
        CdiDirectoryState::Absent => if_absent.map(|severity| {
            Finding::new(
                severity,
                "cdi-directory-absent",
                path,
                "this directory does not exist, but drivers write their specs into it",
                format!(
                    "start the kubelet plugin, which creates the directory, or run: install -d -m 0755 {}",
                    shell_quote(path)
                ),
            )
        }),
        CdiDirectoryState::Skipped(error) => Some(Finding::of(Severity::Error, path, error)),
    }
}

/// A copy is probably a backup; a device that no other file defines is a mistake.
fn in_subdirectory(directory: &CdiDirectory, spec: &NestedSpec) -> Finding {
    let (id, path) = ("cdi-spec-in-subdirectory", &spec.path);
    let dir = &directory.path;
    match &spec.missing_device {
        Some(device) => Finding::warning(
            id,
            path,
            format!("runtimes do not read subdirectories, and no other file defines {device}"),
            // Not over another spec.
            format!("mv -n {} {}/", shell_quote(path), shell_quote(dir)),
        ),
        None => Finding::info(
            id,
            path,
            "runtimes do not read subdirectories; other files also define all devices of this file",
            "none needed if this file is only a copy of another spec",
        ),
    }
}

/// A rootless runtime has only the permissions of others.
fn check_mode(
    path: &str,
    mode: Option<u32>,
    needed: u32,
    id: &'static str,
    expected: &str,
) -> Option<Finding> {
    let mode = mode?;
    let fault = if mode & needed != needed {
        "not every user can read this path, so rootless runtimes do not see its devices"
    } else if mode & OTHERS_WRITE != 0 {
        "every user can change which devices and mounts containers get"
    } else {
        return None;
    };
    let fix = format!("chmod {expected} {}", shell_quote(path));
    let evidence = format!("its mode is {mode:04o}: {fault}");
    Some(Finding::warning(id, path, evidence, fix))
}

/// Only the runtime of the node's pods, which runs as root, reads specs of claims. Drivers built
/// on Go's CDI library leave them with mode 0600, the mode of the temporary files that they were
/// (cncf-tags/container-device-interface#224).
fn check_file_mode(FileMode { path, mode }: &FileMode) -> Option<Finding> {
    let found = check_mode(path, *mode, OTHERS_READ, "cdi-spec-mode", "0644")?;
    let is_of_claims = Path::new(path)
        .file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| name.starts_with(KUBELET_PLUGINS));
    let may_others_write = mode.is_some_and(|mode| mode & OTHERS_WRITE != 0);
    if is_of_claims && !may_others_write {
        return Some(Finding {
            severity: Severity::Info,
            fix: "none needed: the runtime that starts pods reads this file as root".to_owned(),
            ..found
        });
    }
    Some(found)
}

/// Finds names that suggest a mistake.
fn check_name(path: &str, name: &str) -> Option<Finding> {
    let is_spec = is_spec_name(name);
    if name.strip_suffix(".tmp").is_some() || durable_file::is_temp_file(name) {
        return Some(Finding::warning(
            "cdi-leftover",
            path,
            "an interrupted write left this file behind; no runtime reads it",
            format!(
                "if no driver is writing this file now: rm {}",
                shell_quote(path)
            ),
        ));
    }
    if let Some(meant) = path_with_known_extension(path).filter(|_| !is_spec) {
        return Some(Finding::warning(
            "cdi-spec-extension",
            path,
            "runtimes read only files whose names end in .json or .yaml, in lower case",
            // Not over another spec.
            format!("mv -n {} {}", shell_quote(path), shell_quote(&meant)),
        ));
    }
    (is_spec && name.starts_with('.')).then(|| {
        Finding::warning(
            "cdi-spec-hidden",
            path,
            "runtimes read hidden files, but ls does not show them",
            format!(
                "if you need this spec, rename the file without the dot; otherwise: rm {}",
                shell_quote(path)
            ),
        )
    })
}

/// The path with the extension that runtimes read, if its own is nearly that.
fn path_with_known_extension(path: &str) -> Option<String> {
    let (stem, extension) = path.rsplit_once('.')?;
    match extension.to_ascii_lowercase().as_str() {
        "yml" | "yaml" => Some(format!("{stem}.yaml")),
        "json" => Some(format!("{stem}.json")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_runtimes_ignore_or_ls_hides_are_findings() {
        let id = |name: &str| check_name(&format!("/etc/cdi/{name}"), name).map(|it| it.id);
        assert_eq!(id("a.yml"), Some("cdi-spec-extension"));
        assert_eq!(id("a.tmp"), Some("cdi-leftover"));
        assert_eq!(id(".a.json"), Some("cdi-spec-hidden"));
        for fine in ["a.json", "a.yaml", "README", ".keep"] {
            assert_eq!(id(fine), None, "{fine}");
        }
        for (name, meant) in [("a.yml", "yaml"), ("a.YAML", "yaml"), ("a.Json", "json")] {
            let fix = check_name(&format!("/etc/cdi/{name}"), name).unwrap().fix;
            assert_eq!(fix, format!("mv -n /etc/cdi/{name} /etc/cdi/a.{meant}"));
        }
    }

    #[test]
    fn only_the_last_directory_has_to_exist() {
        let absent = |path: &str| CdiDirectory {
            path: path.to_owned(),
            state: CdiDirectoryState::Absent,
        };
        let facts = DirectoryFacts {
            directories: vec![absent("/etc/cdi"), absent("/var/run/cdi")],
            files: vec![],
        };
        let report = check(&facts, true);
        assert_eq!(report.summary, "no CDI directory can be read");
        let subjects: Vec<&str> = report
            .findings
            .iter()
            .map(|it| it.subject.as_str())
            .collect();
        assert_eq!(subjects, ["/var/run/cdi"]);
    }

    #[test]
    fn only_root_needs_to_read_the_specs_of_claims() {
        let severity = |path: &str, mode| {
            let file = FileMode {
                path: path.to_owned(),
                mode: Some(mode),
            };
            check_file_mode(&file).map(|it| it.severity)
        };
        let claim = "/var/run/cdi/k8s.gpu.nvidia.com-claim_1.yaml";
        assert_eq!(severity(claim, 0o644), None);
        assert_eq!(severity(claim, 0o600), Some(Severity::Info));
        assert_eq!(severity(claim, 0o666), Some(Severity::Warning));
        let other = severity("/etc/cdi/nvidia.yaml", 0o600);
        assert_eq!(other, Some(Severity::Warning));
    }

    #[test]
    fn others_must_be_able_to_read_but_not_to_write() {
        let id = |mode| {
            check_mode("/f", Some(mode), OTHERS_READ, "cdi-spec-mode", "0644").map(|it| it.evidence)
        };
        assert_eq!(id(0o644), None);
        assert!(
            id(0o640)
                .unwrap()
                .starts_with("its mode is 0640: not every user")
        );
        assert!(
            id(0o666)
                .unwrap()
                .starts_with("its mode is 0666: every user can change")
        );
        assert_eq!(
            check_mode("/f", None, OTHERS_READ, "cdi-spec-mode", "0644"),
            None
        );
    }
}
