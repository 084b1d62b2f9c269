//! Compares the meaning of two CDI specs, such as one of ours with one of another generator:
//! `cargo run -p spec-diff -- OLD NEW`. Prints a line for each difference. Exit code 1 if there is one,
//! 2 if a spec cannot be read.
//!
//! ```text
//! Spec ──► canonical JSON, without irrelevant order ──► differences
//! ```
//!
//! Devices, mounts and variables are matched by name; other lists keep their order only if it matters.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program prints its result"
)]

mod canonical;
mod compare;

use std::error::Error;
use std::fs;
use std::process::ExitCode;

use imex_cdi::Spec;
use serde_json::Value;

use compare::{Change, Difference, differences};

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    match compare(&files) {
        Ok(found) => {
            for difference in &found {
                println!("{}", line(difference));
            }
            ExitCode::from(u8::from(!found.is_empty()))
        }
        Err(error) => {
            eprintln!("spec-diff: {error}");
            ExitCode::from(2)
        }
    }
}

fn compare(files: &[String]) -> Result<Vec<Difference>, Box<dyn Error>> {
    let [old, new] = files else {
        return Err("usage: spec-diff OLD NEW".into());
    };
    Ok(differences(&read(old)?, &read(new)?))
}

fn read(file: &str) -> Result<Value, Box<dyn Error>> {
    let bytes = fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let spec = Spec::parse(&bytes).map_err(|error| format!("{file}: {error}"))?;
    Ok(canonical::spec(&spec))
}

fn line(difference: &Difference) -> String {
    let text = |value: &Option<Value>| value.as_ref().map_or_else(String::new, Value::to_string);
    let (path, old, new) = (
        &difference.path,
        text(&difference.old),
        text(&difference.new),
    );
    match difference.change {
        Change::Removed => format!("- {path}: {old}"),
        Change::Added => format!("+ {path}: {new}"),
        Change::Changed => format!("~ {path}: {old} -> {new}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(old: &str, new: &str) -> Vec<String> {
        let spec = |edits: &str| {
            let text = format!(
                "{{cdiVersion: 0.5.0, kind: example.com/lamp, devices: [{{name: red, containerEdits: {{{edits}}}}}]}}"
            );
            canonical::spec(&Spec::parse(text.as_bytes()).unwrap())
        };
        let found = differences(&spec(old), &spec(new));
        found.iter().map(line).collect()
    }

    #[test]
    fn equivalent_specs_have_no_differences() {
        let old = "env: [A=1, B=2], deviceNodes: [{path: /dev/a}, {path: /dev/b}]";
        let new = "env: [B=2, A=0, A=1], deviceNodes: [{path: /dev/b, hostPath: /dev/b, permissions: rwm}, {path: /dev/a, major: 0}]";
        assert_eq!(lines(old, new), [""; 0]);
    }

    #[test]
    fn a_difference_names_the_field_and_both_values() {
        let old = "env: [A=1], deviceNodes: [{path: /dev/a, major: 7, type: c}]";
        let new = "env: [A=2], deviceNodes: [{path: /dev/a, permissions: rw, type: c}]";
        assert_eq!(
            lines(old, new),
            [
                r#"~ devices[red].containerEdits.env[A]: "1" -> "2""#,
                "- devices[red].containerEdits.deviceNodes[/dev/a].major: 7",
                r#"~ devices[red].containerEdits.deviceNodes[/dev/a].permissions: "rwm" -> "rw""#,
            ]
        );
    }
}
