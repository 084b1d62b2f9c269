//! The commands: each turns arguments into a report or a file, and into an
//! [`Outcome`] or a [`Failure`].

mod checkpoint;
mod doctor;
mod generate;
mod gpus;
mod hook;
mod list;
mod show;
mod validate;
mod why;

use std::io::Write;

use crate::args::Command;
use crate::outcome::{Failure, Outcome};

pub(crate) fn run(command: Command, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    match command {
        Command::Generate(args) => generate::run(&args, stdout),
        Command::List(args) => list::run(&args, stdout),
        Command::Show(args) => show::run(&args, stdout),
        Command::Validate(args) => validate::run(args, stdout),
        Command::Why(args) => why::run(&args, stdout),
        Command::Gpus(args) => gpus::run(&args, stdout),
        Command::Doctor(args) => doctor::run(&args, stdout),
        Command::Checkpoint(command) => checkpoint::run(command, stdout),
        Command::Hook(command) => hook::run(command),
    }
}
