//! Exit code and output of subcommands.

use std::io::Write as _;

use daemon_runtime::StartError;

/// Exit code of a subcommand that decided against it. A failure to decide is code 1.
pub(crate) const REFUSED: u8 = 3;

/// Prints a line on standard output.
pub(crate) fn print(line: &str) -> Result<(), StartError> {
    writeln!(std::io::stdout(), "{line}")
        .map_err(|err| StartError::new(&err, "make standard output writable"))
}
