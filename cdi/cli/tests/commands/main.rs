//! End-to-end tests of the commands on CDI specs: the program runs on a copy of a
//! host's root directory.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where its expectation fails"
)]

mod ends;
mod generate;
mod gpus;
mod hook;
mod large;
mod many;
#[path = "../support/output.rs"]
mod output;
mod page;
mod patterns;
#[path = "../support/prepared.rs"]
mod prepared;
#[path = "../support/schema.rs"]
mod schema;
mod schemas;
mod specs;
mod stale;
#[path = "../support/unprivileged.rs"]
mod unprivileged;
mod validate;
mod why;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use output::{stderr, stdout};

/// A directory with the fixtures: `host`, a root with specs, and `bundle`.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"),
            dir.path(),
        );
        Self(dir)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.at(path), text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cdi-gen"));
        command
            .args(words.split_whitespace())
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// The stdout of a command that ends with `code`.
    fn out(&self, words: &str, code: i32) -> String {
        let output = self.run(words);
        let both = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{words}: {both}");
        stdout(&output)
    }

    /// The stderr of a command that ends with `code` and prints no data.
    fn err(&self, words: &str, code: i32) -> String {
        let output = self.run(words);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words}: {}",
            stderr(&output)
        );
        assert_eq!(stdout(&output), "", "{words}");
        stderr(&output)
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            symlink(fs::read_link(source).unwrap(), target).unwrap();
        } else if kind.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&source, &target);
        } else {
            fs::copy(source, target).unwrap();
        }
    }
}
