//! Writes cdi-gen's man pages and shell completions into a directory, from
//! cdi-gen's own definition of its arguments:
//!
//! ```text
//! DIR/man/man1/cdi-gen.1, cdi-gen-list.1, …
//! DIR/completions/cdi-gen.bash, _cdi-gen, cdi-gen.fish
//! ```

#![forbid(unsafe_code)]

#[path = "../../../cdi/cli/src/args.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "cdi-gen reads the parsed arguments; only their description is used here"
)]
mod args;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use args::Args;

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        let _ = writeln!(io::stderr(), "usage: cli-docs DIR");
        return ExitCode::from(2);
    };
    match write(&dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "cli-docs: {}: {error}", dir.display());
            ExitCode::from(3)
        }
    }
}

fn write(dir: &Path) -> io::Result<()> {
    let (pages, completions) = (dir.join("man/man1"), dir.join("completions"));
    for dir in [&pages, &completions] {
        fs::create_dir_all(dir)?;
    }
    clap_mangen::generate_to(Args::command(), &pages)?;
    for page in fs::read_dir(&pages)? {
        let page = page?;
        // DIR may be /usr/local/share with pages of other programs.
        if !page.file_name().as_encoded_bytes().starts_with(b"cdi-gen") {
            continue;
        }
        let page = page.path();
        // The only text that clap shows after the options is on exit codes.
        let text = fs::read_to_string(&page)?;
        fs::write(
            &page,
            text.replace(".SH EXTRA\nExit codes: ", ".SH \"EXIT STATUS\"\n"),
        )?;
    }
    fs::write(completions.join("cdi-gen.bash"), bash())?;
    for shell in [Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Args::command(), "cdi-gen", &completions)?;
    }
    Ok(())
}

/// The completions for bash.
///
/// If the program's name has a dash, `clap_complete` 4.6 uses two names for a
/// command: one where a word selects it (`cdi__gen__subcmd__list`), another at its
/// options (`cdi__subcmd__gen__subcmd__list`). Bash would then complete nothing
/// after a subcommand. Both become the former, which is unambiguous: there is no
/// subcommand `gen`.
fn bash() -> String {
    let mut script = Vec::new();
    clap_complete::generate(Shell::Bash, &mut Args::command(), "cdi-gen", &mut script);
    String::from_utf8_lossy(&script).replace("cdi__subcmd__gen", "cdi__gen")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The names of all commands' pages.
    fn names(command: &clap::Command, name: &str) -> Vec<String> {
        let own = std::iter::once(name.to_owned());
        let nested = command
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
            .flat_map(|command| names(command, &format!("{name}-{}", command.get_name())));
        own.chain(nested).collect()
    }

    #[test]
    fn every_command_has_a_page_and_every_shell_its_completions() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        let names = names(&Args::command(), "cdi-gen");
        assert!(names.contains(&"cdi-gen-checkpoint-show".to_owned()));
        for name in names {
            let page = dir.path().join(format!("man/man1/{name}.1"));
            let page = fs::read_to_string(page).unwrap();
            assert!(page.contains("SYNOPSIS"), "{name}");
            assert!(!page.contains(".SH EXTRA"), "{name}");
        }
        for shell in ["cdi-gen.bash", "_cdi-gen", "cdi-gen.fish"] {
            let script = dir.path().join("completions").join(shell);
            let script = fs::read_to_string(script).unwrap();
            assert!(script.contains("file-mode"), "{shell}");
        }
    }

    #[test]
    fn the_page_of_another_program_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("man/man1/gzip.1.gz");
        fs::create_dir_all(page.parent().unwrap()).unwrap();
        fs::write(&page, b"\x1f\x8b").unwrap();
        write(dir.path()).unwrap();
        assert_eq!(fs::read(&page).unwrap(), b"\x1f\x8b");
    }

    /// The completions that bash offers for the last of `words`.
    fn offered(script: &Path, words: &[&str]) -> String {
        let driver = r#"
            source "$1"; shift
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            _cdi__gen "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            echo "${COMPREPLY[@]}"
        "#;
        let output = Command::new("bash")
            .args(["--norc", "-c", driver, "bash"])
            .arg(script)
            .args(words)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn bash_completes_commands_and_their_options() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        let script = dir.path().join("completions/cdi-gen.bash");
        for (words, offer) in [
            (["cdi-gen", "li"].as_slice(), "list\n"),
            (
                &["cdi-gen", "list", "--"],
                "--spec-dir --root --kubelet-root --json --help\n",
            ),
            (&["cdi-gen", "generate", "--mode", "h"], "host-path\n"),
            (&["cdi-gen", "checkpoint", "ver"], "verify\n"),
            (&["cdi-gen", "checkpoint", "show", "--j"], "--json\n"),
        ] {
            assert_eq!(offered(&script, words), offer, "{words:?}");
        }
    }

    #[test]
    fn every_command_completes_its_options() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        let script = dir.path().join("completions/cdi-gen.bash");
        for command in commands(&Args::command()) {
            let words: Vec<&str> = command.iter().map(String::as_str).chain(["--he"]).collect();
            assert_eq!(offered(&script, &words), "--help\n", "{command:?}");
        }
    }

    /// The words of every command, from the program on.
    fn commands(command: &clap::Command) -> Vec<Vec<String>> {
        let own = command.get_name().to_owned();
        let nested = command
            .get_subcommands()
            .filter(|command| command.get_name() != "help");
        let nested = nested.flat_map(commands).map(|words| {
            let own = std::iter::once(own.clone());
            own.chain(words).collect()
        });
        std::iter::once(vec![own.clone()]).chain(nested).collect()
    }

    #[test]
    fn the_arguments_are_valid() {
        Args::command().debug_assert();
    }
}
