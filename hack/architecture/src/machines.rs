//! Checks that no source works on x86-64 only: Grace, the racks' CPU, is aarch64, and not all tests run there.
//!
//! It does not find type errors, which a compiler for the other architecture reports. It finds paths,
//! names and numbers of one architecture, which the compiler accepts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// x86-64's names in Rust and Debian's library paths, in Debian's packages and OCI images, and in
/// the loader's file name; each with aarch64's name.
const WORDS: [(&str, &str); 3] = [
    ("x86_64", "aarch64"),
    ("amd64", "arm64"),
    ("x86-64", "aarch64"),
];

/// Code that is specific to one architecture, although it may compile on both.
const ONE_MACHINE: [(&str, &str); 5] = [
    ("std::arch", "intrinsics are for one architecture"),
    ("asm!", "assembly is for one architecture"),
    ("*const i8", "C's char is unsigned on aarch64: write c_char"),
    ("*mut i8", "C's char is unsigned on aarch64: write c_char"),
    (
        "custom_flags(0",
        "flags of open(2) differ (O_DIRECTORY, O_NOFOLLOW): write their names",
    ),
];

/// One line for each finding in the sources below `root`.
pub(crate) fn findings(root: &Path) -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    for path in sources(root)? {
        let text = read(&path)?;
        let name = path.strip_prefix(root).unwrap_or(&path).display();
        findings.extend(of_text(&text).map(|finding| format!("{name}: {finding}")));
    }
    Ok(findings)
}

/// The files to check, in order.
pub(crate) fn sources(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    Ok(files)
}

pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

/// Collects the files of programs, scripts and charts. Tests are left out: they may use values of
/// one machine.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    const LEFT_OUT: [&str; 4] = ["target", "out", "tests", "corpus"];
    let unreadable = |source| Error::Read {
        path: directory.to_owned(),
        source,
    };
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type().map_err(unreadable)?.is_dir() {
            if !name.starts_with('.') && !LEFT_OUT.contains(&&*name) {
                collect(&path, files)?;
            }
        } else if [".rs", ".sh", ".yaml", ".tpl", ".toml"]
            .iter()
            .any(|end| name.ends_with(end))
            && !name.ends_with("tests.rs")
            && !path.ends_with("architecture/src/machines.rs")
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Findings in a file: it must name both architectures in the same number of lines of code.
fn of_text(text: &str) -> impl Iterator<Item = String> {
    let code = || {
        text.lines()
            .filter(|line| !line.trim_start().starts_with("//"))
    };
    let lines_with = move |word: &str| code().filter(|line| line.contains(word)).count();
    let words = WORDS.iter().filter_map(move |(ours, other)| {
        let (here, there) = (lines_with(ours), lines_with(other));
        (here > there).then(|| format!("{here} lines name {ours}, but {there} name {other}"))
    });
    let one = ONE_MACHINE
        .iter()
        .filter(move |(pattern, _)| lines_with(pattern) > 0)
        .map(|(pattern, reason)| format!("has {pattern}: {reason}"));
    words.chain(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        of_text(text).collect()
    }

    #[test]
    fn a_path_of_one_machine_needs_the_other_ones() {
        assert_eq!(
            of("\"usr/lib/x86_64-linux-gnu\",\n"),
            ["1 lines name x86_64, but 0 name aarch64"]
        );
        assert_eq!(
            of("\"usr/lib/x86_64-linux-gnu\",\n\"usr/lib/aarch64-linux-gnu\",\n"),
            [""; 0]
        );
        assert_eq!(
            of("image: imex-dra-amd64\n"),
            ["1 lines name amd64, but 0 name arm64"]
        );
    }

    #[test]
    fn a_comment_may_show_what_one_machine_says() {
        assert_eq!(of("/// NVRM version: NVIDIA UNIX x86_64\n"), [""; 0]);
    }

    #[test]
    fn flags_in_numbers_and_signed_chars_are_refused() {
        let found = of("options.custom_flags(0o200000);\nlet name = text as *const i8;\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(of("options.custom_flags(O_DIRECTORY);\n"), [""; 0]);
    }

    #[test]
    fn sources_are_found_and_tests_left_out() {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("a/src/paths.rs", "amd64"),
            ("a/src/paths_tests.rs", "amd64"),
            ("a/tests/it.rs", "amd64"),
            ("target/x.rs", "amd64"),
            ("hack/x.sh", "arm64 amd64"),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(
            findings(root.path()).unwrap(),
            ["a/src/paths.rs: 1 lines name amd64, but 0 name arm64"]
        );
    }
}
