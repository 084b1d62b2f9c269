//! `nvidia-cdi-hook`: what has to happen inside the root file system of an NVIDIA GPU container before it starts.
//!
//! A container runtime runs it for a CDI spec as `createContainer` hook: the container's mounts exist, its root is
//! not entered yet.
//!
//! ```text
//! arguments ──command_line──► Steps ─┐
//! stdin ─────state──► bundle ──► Root ┴─► links ─► compat ─► loader_config ─► ldconfig ─► params ─► profile
//!                                                                               │
//!                                                     this program again ──► isolated ──► the host's ldconfig
//! ```
//!
//! `container` has all steps in one process; NVIDIA's sub-commands have one step each. Every path of the container
//! is opened by [`root`], which cannot leave the root, whatever links the image has.
//!
//! # Modules
//!
//! Each uses only modules above it.
//!
//! | purpose | modules |
//! |---|---|
//! | shared | [`error`]; `walk` (paths without `openat2`), [`root`] (files inside a root) |
//! | steps | [`links`]; `version`, [`compat`] (forward compatibility); `musl`, [`loader_config`] (the loader's folders); `isolated`, [`ldconfig`] (its cache); [`params`]; [`profile`] |
//! | input | [`steps`], [`command_line`], [`state`] |

#![forbid(unsafe_code)]

mod command_line;
mod compat;
mod error;
mod isolated;
mod ldconfig;
mod links;
mod loader_config;
mod musl;
mod params;
mod profile;
mod root;
mod state;
mod steps;
mod version;
mod walk;

use std::io::{self, Write};
use std::process::ExitCode;

use dra_common::OneLine;
use nix::sys::stat::{Mode, umask};

use crate::command_line::Command;
use crate::error::HookError;
use crate::root::Root;
use crate::steps::Steps;

fn main() -> ExitCode {
    // Files in the container are for all its users, whatever mask the runtime has.
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    let line = match Command::parse(std::env::args_os().skip(1)) {
        Ok(Command::Run(steps)) => match run(&steps) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => with_hint(&error),
        },
        Ok(Command::Ldconfig { root, arguments }) => {
            let Err(error) = isolated::exec(&root, &arguments);
            // A part of the message of the process that started this one.
            OneLine(error).to_string()
        }
        Ok(Command::Unsupported(name)) => {
            print(&format!(
                "nvidia-cdi-hook: hook {} is not supported",
                OneLine(name)
            ));
            return ExitCode::SUCCESS;
        }
        Ok(Command::Help) => {
            // Help that cannot be printed has no other effect.
            let _ = io::stdout().write_all(command_line::USAGE.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(error) => with_hint(&error),
    };
    print(&line);
    ExitCode::FAILURE
}

fn run(steps: &Steps) -> Result<(), HookError> {
    let root = state::container_root(steps.state.as_deref())?;
    let opened = Root::open(&root).map_err(|error| HookError::Bundle {
        path: root,
        reason: error.to_string(),
    });
    steps.run(&opened?)
}

fn with_hint(error: &HookError) -> String {
    format!("nvidia-cdi-hook: {}; {}", OneLine(error), error.hint())
}

/// Prints one line for the runtime's log.
fn print(line: &str) {
    // Without stderr, the exit code remains.
    let _ = writeln!(io::stderr(), "{line}");
}
