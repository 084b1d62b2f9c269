//! Writes cdi-gen's man pages and shell completions into a directory, from the
//! arguments that cdi-gen itself is compiled with:
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
    reason = "what is typed is read in cdi-gen; here only its description is"
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
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Args::command(), "cdi-gen", &completions)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command, as its page is called.
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
        }
        for shell in ["cdi-gen.bash", "_cdi-gen", "cdi-gen.fish"] {
            let script = dir.path().join("completions").join(shell);
            let script = fs::read_to_string(script).unwrap();
            assert!(script.contains("name-style"), "{shell}");
        }
    }

    #[test]
    fn the_arguments_are_sound() {
        Args::command().debug_assert();
    }
}
