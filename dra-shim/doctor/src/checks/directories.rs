//! The CDI directories: whether runtimes read them, and all that is in them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use compute_domain_node::error_chain;
use imex_cdi::{DirState, Registry, SpecDir};

use crate::area::AreaReport;
use crate::files::HostFiles;
use crate::finding::Finding;
use crate::shell::shell_quote;

const OTHERS_READ: u32 = 0o004;
const OTHERS_LIST: u32 = 0o005;
const OTHERS_WRITE: u32 = 0o002;

pub(super) fn check(files: &HostFiles, registry: &Registry) -> AreaReport {
    let mut findings = Vec::new();
    let dirs = registry.dirs();
    // Runtimes do without either; it is the last in which drivers write.
    let written = dirs.last().map(|dir| dir.priority);
    for dir in dirs {
        findings.extend(of_dir(files, dir, Some(dir.priority) == written));
        if matches!(dir.state, DirState::Listed) {
            findings.extend(of_names(files, &dir.path));
        }
    }
    for file in registry.files() {
        findings.extend(of_mode(
            files,
            &file.path,
            OTHERS_READ,
            "cdi-spec-mode",
            "0644",
        ));
    }
    let paths: Vec<String> = dirs
        .iter()
        .filter(|dir| matches!(dir.state, DirState::Listed))
        .map(|dir| files.host_name(&dir.path))
        .collect();
    let summary = match paths.as_slice() {
        [] => "no directory is read".to_owned(),
        _ => paths.join(", "),
    };
    AreaReport::new(summary, findings)
}

fn of_dir(files: &HostFiles, dir: &SpecDir, is_written: bool) -> Vec<Finding> {
    let shown = files.host_name(&dir.path);
    match &dir.state {
        DirState::Listed => of_mode(files, &dir.path, OTHERS_LIST, "cdi-directory-mode", "0755"),
        DirState::Absent if !is_written => vec![],
        DirState::Absent => vec![Finding::warning(
            "cdi-directory-absent",
            shown.clone(),
            "it does not exist, and drivers write their specs into it",
            format!(
                "start the kubelet plugin, which makes it, or: install -d -m 0755 {}",
                shell_quote(&shown)
            ),
        )],
        DirState::Skipped(error) => {
            let (code, hint) = (error.code(), error.hint());
            let finding = Finding::error(code, shown, error_chain(error), hint);
            vec![finding.naming(files, &dir.path)]
        }
    }
}

/// Rootless runtimes are others, too.
fn of_mode(
    files: &HostFiles,
    path: &Path,
    needed: u32,
    id: &'static str,
    right: &str,
) -> Vec<Finding> {
    let Ok(found) = path.metadata() else {
        return vec![];
    };
    let mode = found.permissions().mode() & 0o7777;
    let fault = if mode & needed != needed {
        "not everybody may read it, so that rootless runtimes do not see its devices"
    } else if mode & OTHERS_WRITE != 0 {
        "everybody may change what containers get"
    } else {
        return vec![];
    };
    let shown = files.host_name(path);
    let fix = format!("chmod {right} {}", shell_quote(&shown));
    let evidence = format!("its mode is {mode:04o}: {fault}");
    vec![Finding::warning(id, shown, evidence, fix)]
}

/// Names that say that something else was meant.
fn of_names(files: &HostFiles, dir: &Path) -> Vec<Finding> {
    let shown = files.host_name(dir);
    let names = files.names(&shown);
    names
        .iter()
        .filter_map(|name| of_name(&format!("{shown}/{name}"), name))
        .collect()
}

fn of_name(path: &str, name: &str) -> Option<Finding> {
    let is_spec = ends_with(name, ".json") || ends_with(name, ".yaml");
    if ends_with(name, ".tmp") || durable_file::is_leftover(name) {
        return Some(Finding::warning(
            "cdi-leftover",
            path,
            "it is what a write that was cut off left behind; no runtime reads it",
            format!("if no driver is writing it now: rm {}", shell_quote(path)),
        ));
    }
    if let Some(meant) = as_meant(path).filter(|_| !is_spec) {
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
            "runtimes read hidden files too; ls does not show them",
            format!(
                "if it is meant, give it a name without the dot, else: rm {}",
                shell_quote(path)
            ),
        )
    })
}

/// The path with the extension that runtimes read, if its own is nearly that.
fn as_meant(path: &str) -> Option<String> {
    let (stem, extension) = path.rsplit_once('.')?;
    match extension.to_ascii_lowercase().as_str() {
        "yml" | "yaml" => Some(format!("{stem}.yaml")),
        "json" => Some(format!("{stem}.json")),
        _ => None,
    }
}

/// Exactly, as runtimes compare.
fn ends_with(name: &str, extension: &str) -> bool {
    name.ends_with(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_what_no_runtime_reads_and_what_nobody_sees() {
        let id = |name: &str| of_name(&format!("/etc/cdi/{name}"), name).map(|it| it.id);
        assert_eq!(id("a.yml"), Some("cdi-spec-extension"));
        assert_eq!(id("a.tmp"), Some("cdi-leftover"));
        assert_eq!(id(".a.json"), Some("cdi-spec-hidden"));
        for fine in ["a.json", "a.yaml", "README", ".keep"] {
            assert_eq!(id(fine), None, "{fine}");
        }
        for (name, meant) in [("a.yml", "yaml"), ("a.YAML", "yaml"), ("a.Json", "json")] {
            let fix = of_name(&format!("/etc/cdi/{name}"), name).unwrap().fix;
            assert_eq!(fix, format!("mv -n /etc/cdi/{name} /etc/cdi/a.{meant}"));
        }
    }
}
