//! `mock-host INVENTORY DIR [LIBRARY]`: makes a host in DIR with the GPUs of a file that `cdi-gen gpus --json` has printed. LIBRARY
//! is the built mock of NVML, which cargo builds otherwise.

#![expect(clippy::print_stderr, reason = "it is a program")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mock_host::{MockHost, library};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let (file, dir, built) = match args.as_slice() {
        [file, dir] => (file, dir, None),
        [file, dir, built] => (file, dir, Some(built)),
        _ => {
            eprintln!("usage: mock-host INVENTORY DIR [LIBRARY]");
            return ExitCode::from(2);
        }
    };
    let inventory = fs::read(file)
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    let made = inventory.and_then(|inventory| {
        fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        let built = built.map_or_else(|| library().to_owned(), PathBuf::from);
        MockHost::new(Path::new(dir), &inventory, &built);
        Ok(())
    });
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mock-host: {file}: {error}");
            ExitCode::FAILURE
        }
    }
}
