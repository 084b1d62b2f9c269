//! `COMMANDS.md` shows the real output of each command: stdout, then stderr. Its commands run in
//! one copy of the fixtures, from the first to the last. With `UPDATE_COMMANDS=1` in the
//! environment the page is corrected.

use std::env;
use std::fs;
use std::path::Path;

use super::{Place, stderr, stdout};

const PROMPT: &str = "$ ";
const STATUS: &str = "echo $?";

/// Words in backquotes that begin with `cdi-gen`.
#[test]
fn the_comparison_names_only_commands_that_there_are() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("COMPARISON.md"));
    let page = page.unwrap();
    let help = Place::new().out("--help", 0);
    let mut named = 0;
    for words in page.split('`').filter_map(|it| it.strip_prefix("cdi-gen ")) {
        let command = words.split_whitespace().next().unwrap();
        assert!(help.contains(&format!("\n  {command} ")), "{words}");
        named += 1;
    }
    assert!(named > 0);
}

#[test]
fn the_page_shows_what_the_commands_print() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("COMMANDS.md");
    let page = fs::read_to_string(&path).unwrap();
    let real = run_all(&page);
    if env::var_os("UPDATE_COMMANDS").is_some() {
        fs::write(&path, real).unwrap();
    } else {
        for (shown, printed) in page.lines().zip(real.lines()) {
            assert_eq!(shown, printed);
        }
        assert!(page == real, "UPDATE_COMMANDS=1 corrects it");
    }
}

#[test]
fn the_page_shows_every_command() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("COMMANDS.md"));
    let page = page.unwrap();
    let help = Place::new().out("--help", 0);
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.split("\n\n").next().unwrap();
    for line in commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
    {
        let command = line.split_whitespace().next().unwrap();
        if command != "help" {
            assert!(
                page.contains(&format!("\n$ cdi-gen {command} ")),
                "{command}"
            );
        }
    }
}

/// The page with the commands' real output.
fn run_all(page: &str) -> String {
    let place = Place::new();
    let mut real = String::new();
    let mut status: Option<i32> = None;
    let mut in_console = false;
    for line in page.lines() {
        match line {
            "```console" => in_console = true,
            "```" => in_console = false,
            _ => {}
        }
        if !in_console || line == "```console" {
            real.extend([line, "\n"]);
            continue;
        }
        let Some(command) = line.strip_prefix(PROMPT) else {
            continue;
        };
        real.extend([line, "\n"]);
        if command == STATUS {
            real.extend([status.unwrap().to_string().as_str(), "\n"]);
        } else if let Some(file) = command.strip_prefix("cat ") {
            let text = place.read(file);
            real.push_str(text.trim_end());
            real.push('\n');
        } else {
            // As a shell reads quoted patterns.
            let words = command.strip_prefix("cdi-gen ").unwrap().replace('\'', "");
            let (words, stdin) = words.split_once(" < ").unwrap_or((&words, "/dev/null"));
            let stdin = fs::File::open(place.at(stdin)).unwrap();
            let output = place.command(words).stdin(stdin).output().unwrap();
            status = output.status.code();
            real.push_str(&(stdout(&output) + &stderr(&output)));
        }
    }
    real
}
