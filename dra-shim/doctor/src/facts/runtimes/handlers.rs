//! The program that starts containers by default, and whether it is there.

use super::model::DefaultHandler;
use crate::files::HostFiles;

/// Where distributions have such programs: the `PATH` of systemd's services, and what
/// Flatcar, NixOS and Google's COS have besides.
const USUAL_DIRS: [&str; 9] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/opt/bin",
    "/run/current-system/sw/bin",
    "/home/kubernetes/bin",
];

/// A default handler, as a configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Configured {
    Program {
        name: String,
        program: String,
        file: String,
        setting: String,
    },
    Undefined {
        name: String,
        file: String,
    },
}

// === impl Configured ===

impl Configured {
    /// `path` is the variable of the runtime's process, if it is known.
    pub(super) fn look_up(self, files: &HostFiles, path: Option<&str>) -> DefaultHandler {
        match self {
            Self::Program {
                name,
                program,
                file,
                setting,
            } => DefaultHandler::Program {
                exists: exists(files, &program, path),
                name,
                program,
                file,
                setting,
            },
            Self::Undefined { name, file } => DefaultHandler::Undefined { name, file },
        }
    }
}

fn exists(files: &HostFiles, program: &str, path: Option<&str>) -> Option<bool> {
    if program.starts_with('/') {
        files.try_exists(program).ok()
    } else {
        is_in_path(files, program, path)
    }
}

/// Not known, if it is in no usual place and the service may search others.
fn is_in_path(files: &HostFiles, program: &str, path: Option<&str>) -> Option<bool> {
    if program.contains('/') {
        return None;
    }
    let own = path.unwrap_or_default().split(':');
    let dirs = own.filter(|dir| dir.starts_with('/')).chain(USUAL_DIRS);
    let mut found = dirs.map(|dir| files.try_exists(&format!("{dir}/{program}")));
    // An error is a directory that this process may not search.
    let there = found.find(|it| !matches!(it, Ok(false)));
    match there {
        Some(found) => found.ok(),
        None => path.map(|_| false),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::root::Root;

    fn is_there(root: &Path, program: &str, path: Option<&str>) -> Option<bool> {
        let files = HostFiles::new(Root::new(root).unwrap());
        exists(&files, program, path)
    }

    #[test]
    fn a_path_is_there_or_not_and_a_name_is_looked_up_where_the_service_does() {
        let dir = tempfile::tempdir().unwrap();
        for at in ["usr/bin", "opt/own"] {
            fs::create_dir_all(dir.path().join(at)).unwrap();
        }
        fs::write(dir.path().join("usr/bin/runc"), "").unwrap();
        fs::write(dir.path().join("opt/own/crun"), "").unwrap();
        let own = Some("/opt/own:/usr/bin");
        for (program, path, expected) in [
            ("/usr/bin/runc", None, Some(true)),
            ("/usr/bin/none", None, Some(false)),
            ("runc", None, Some(true)),
            ("crun", own, Some(true)),
            ("none", own, Some(false)),
            // It may be in a directory that only the service knows.
            ("crun", None, None),
            ("bin/runc", own, None),
        ] {
            assert_eq!(is_there(dir.path(), program, path), expected, "{program}");
        }
    }
}
