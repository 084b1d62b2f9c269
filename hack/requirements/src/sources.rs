//! The files to read.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::error::Error;

/// Where the requirements are.
const PAGES: &str = "docs/requirements/";
/// This program: its tests contain example citations, which do not count.
const OWN: &str = "hack/requirements/";

/// A file of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

// === impl Source ===

impl Source {
    /// Whether it is a page of requirements; other files have citations.
    pub(crate) fn is_page(&self) -> bool {
        self.path.starts_with(PAGES)
    }
}

/// The files that git tracks or would add. Files that are not text have no
/// citations.
pub(crate) fn read(root: &Path) -> Result<Vec<Source>, Error> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .map_err(Error::Git)?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::GitFailed { message });
    }
    let names = String::from_utf8_lossy(&output.stdout);
    let mut sources = Vec::new();
    for name in names.split_terminator('\0').filter(|name| is_read(name)) {
        let path = root.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => sources.push(Source {
                path: name.to_owned(),
                text,
            }),
            // Deleted but not yet committed, or a link to a directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            Err(source) => return Err(Error::Read { path, source }),
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

/// Whether it is a page of requirements or handwritten code, not documentation.
fn is_read(path: &str) -> bool {
    const KINDS: [&str; 6] = ["rs", "sh", "yaml", "tpl", "toml", "txt"];
    let kind = path.rsplit('.').next().unwrap_or_default();
    if let Some(page) = path.strip_prefix(PAGES) {
        return kind == "md" && page != "README.md";
    }
    !path.starts_with(OWN) && KINDS.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_code_are_read_but_not_other_texts_and_this_program() {
        for path in [
            "docs/requirements/cdi.md",
            "cdi/src/lib.rs",
            "deployments/helm/imex-dra/templates/_helpers.tpl",
        ] {
            assert!(is_read(path), "{path}");
        }
        for path in [
            "docs/requirements/README.md",
            "README.md",
            "hack/requirements/src/main.rs",
            "Cargo.lock",
        ] {
            assert!(!is_read(path), "{path}");
        }
    }
}
