//! Checks the structure of the code against the documentation.
//!
//! ```text
//! sources ───────────► modules ──► circles: none may exist
//!         ├──────────► layers: general code uses no IMEX-specific code
//!         ├──────────► machines: none works on x86-64 only
//!         ├──────────► names: no words of everyday speech in identifiers
//!         └──────────► events: each has a row in the documentation
//! cargo metadata ────► crates  ─┐
//! the state machines ► states  ─┴► generated blocks of the documentation: compared, or written
//! ```
//!
//! `architecture check` is part of `hack/test.sh`; `architecture write` updates
//! the documentation; `architecture modules` counts the modules of each crate and
//! the arrows between them.

#![forbid(unsafe_code)]

mod crates;
mod document;
mod error;
mod events;
mod layers;
mod machines;
mod modules;
mod names;
mod states;
mod workspace;

use std::io::{self, Write};
use std::process::ExitCode;

use crate::document::Block;
use crate::error::Error;
use crate::modules::ModuleGraph;
use crate::workspace::Workspace;

/// The subcommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Check,
    Write,
    Modules,
}

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let command = match argument.as_deref() {
        Some("check") => Command::Check,
        Some("write") => Command::Write,
        Some("modules") => Command::Modules,
        _ => {
            let _ = writeln!(io::stderr(), "usage: architecture check | write | modules");
            return ExitCode::from(2);
        }
    };
    match run(command, &mut io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "architecture: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, output: &mut impl Write) -> Result<(), Error> {
    let workspace = Workspace::read()?;
    match command {
        Command::Modules => count_modules(&workspace, output),
        Command::Check => {
            check_circles(&workspace, output)?;
            check_layers(&workspace, output)?;
            check_machines(&workspace, output)?;
            check_names(&workspace, output)?;
            check_events(&workspace, output)?;
            match document::update(&workspace.workspace_root, &blocks(&workspace), false)? {
                paths if paths.is_empty() => Ok(()),
                paths => Err(Error::OutOfDate { paths }),
            }
        }
        Command::Write => {
            let paths = document::update(&workspace.workspace_root, &blocks(&workspace), true)?;
            for path in paths {
                writeln!(output, "{path}").map_err(Error::Output)?;
            }
            Ok(())
        }
    }
}

/// All generated blocks.
fn blocks(workspace: &Workspace) -> Vec<Block> {
    let mut blocks = vec![Block {
        file: "ARCHITECTURE.md",
        name: "crates",
        text: crates::picture(workspace),
    }];
    blocks.extend(states::blocks());
    blocks
}

fn check_circles(workspace: &Workspace, output: &mut impl Write) -> Result<(), Error> {
    let mut found = 0;
    for package in &workspace.packages {
        for target in package.crates() {
            for circle in ModuleGraph::of_crate(&target.src_path)?.circles() {
                found += 1;
                let (files, name) = (circle.files.len(), &target.name);
                writeln!(output, "a circle of {files} modules in {name}:")
                    .map_err(Error::Output)?;
                for arrow in &circle.arrows {
                    writeln!(output, "  {arrow}").map_err(Error::Output)?;
                }
            }
        }
    }
    match found {
        0 => Ok(()),
        circles => Err(Error::Circles(circles)),
    }
}

fn check_layers(workspace: &Workspace, output: &mut impl Write) -> Result<(), Error> {
    match print(&layers::findings(workspace)?, output)? {
        0 => Ok(()),
        found => Err(Error::Layers(found)),
    }
}

fn check_machines(workspace: &Workspace, output: &mut impl Write) -> Result<(), Error> {
    match print(&machines::findings(&workspace.workspace_root)?, output)? {
        0 => Ok(()),
        found => Err(Error::OneMachine(found)),
    }
}

fn check_names(workspace: &Workspace, output: &mut impl Write) -> Result<(), Error> {
    match print(&names::findings(&workspace.workspace_root)?, output)? {
        0 => Ok(()),
        found => Err(Error::Names(found)),
    }
}

fn check_events(workspace: &Workspace, output: &mut impl Write) -> Result<(), Error> {
    match print(&events::findings(&workspace.workspace_root)?, output)? {
        0 => Ok(()),
        found => Err(Error::Events(found)),
    }
}

/// Prints the findings; returns their number.
fn print(findings: &[String], output: &mut impl Write) -> Result<usize, Error> {
    for finding in findings {
        writeln!(output, "{finding}").map_err(Error::Output)?;
    }
    Ok(findings.len())
}

fn count_modules(workspace: &Workspace, output: &mut impl Write) -> Result<(), Error> {
    let (mut modules, mut arrows, mut circles) = (0, 0, 0);
    for package in &workspace.packages {
        for target in package.crates() {
            let graph = ModuleGraph::of_crate(&target.src_path)?;
            let of_crate = (graph.modules(), graph.arrows(), graph.circles().len());
            modules += of_crate.0;
            arrows += of_crate.1;
            circles += of_crate.2;
            write_counts(&target.name, of_crate, output)?;
        }
    }
    write_counts("all", (modules, arrows, circles), output)
}

fn write_counts(
    name: &str,
    (modules, arrows, circles): (usize, usize, usize),
    output: &mut impl Write,
) -> Result<(), Error> {
    writeln!(
        output,
        "{name:<32} {modules:>4} modules {arrows:>5} arrows {circles:>3} circles"
    )
    .map_err(Error::Output)
}
