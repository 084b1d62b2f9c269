//! A program of a driver root, run by that root's own dynamic loader.
//!
//! The program keeps the caller's root directory, unlike in a changed root: it reads the caller's `/etc/hosts`
//! and opens the caller's sockets, while its code and its libraries are those that it was built with.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use dra_common::{Advice, OneLine};

use crate::driver_root::DriverRoot;
use crate::elf;
use crate::not_found::{DriverFileNotFound, RejectReason};
use crate::resolve;

/// A program of a [`DriverRoot`], and how it is run from outside of that root.
///
/// Displays as its path and that of its loader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootProgram {
    root: DriverRoot,
    program: PathBuf,
    /// `None`: the kernel finds what the program needs.
    loader: Option<Loader>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Loader {
    path: PathBuf,
    library_dirs: Vec<PathBuf>,
}

/// Why there is no such program.
#[non_exhaustive]
#[derive(Debug, thiserror::Error, Advice)]
#[advice(
    hint = "the driver's root must be a whole system, or / if the driver is installed on the host"
)]
pub enum RootProgramError {
    /// It is in none of the usual places.
    #[error("{0}")]
    #[advice(
        code = "program-missing",
        hint = "install the nvidia-imex package of the driver's branch in the driver's root"
    )]
    NotFound(DriverFileNotFound),
    /// It cannot be read.
    #[error("cannot read {}", OneLine(program.display()))]
    #[advice(code = "program-unreadable")]
    Unreadable {
        /// The program.
        program: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The loader that it asks for is not in its root.
    #[error(
        "{} needs the loader {}, which in its root {} {reason}",
        OneLine(program.display()),
        OneLine(loader.display()),
        OneLine(root.display())
    )]
    #[advice(code = "loader-missing")]
    NoLoader {
        /// The program.
        program: PathBuf,
        /// The loader, as seen from inside the root.
        loader: PathBuf,
        /// The root.
        root: PathBuf,
        /// What is wrong with the loader.
        reason: RejectReason,
    },
}

// === impl RootProgram ===

impl RootProgram {
    /// Finds `name` below `root` or a root [within it](DriverRoot::with_nested), whichever has it first, and
    /// the loader that it names (`PT_INTERP`) in the same root.
    ///
    /// Below `/`, and for programs that name no loader (statically linked ones, scripts), the program is run
    /// as it is.
    ///
    /// # Errors
    ///
    /// Any [`RootProgramError`]. The driver may be installed later: try again.
    pub fn find(root: &DriverRoot, name: &str) -> Result<Self, RootProgramError> {
        let mut missing: Option<DriverFileNotFound> = None;
        for root in root.with_nested() {
            match root.find_tool(name) {
                Ok(program) => return Self::load(root, program),
                Err(error) => match &mut missing {
                    None => missing = Some(error),
                    Some(first) => first.rejected.extend(error.rejected),
                },
            }
        }
        // `with_nested` begins with the root itself.
        let none = || DriverFileNotFound {
            name: name.to_owned(),
            root: root.path().to_owned(),
            nested: &[],
            rejected: Vec::new(),
        };
        let mut missing = missing.unwrap_or_else(none);
        missing.nested = DriverRoot::nested_places();
        Err(RootProgramError::NotFound(missing))
    }

    fn load(root: DriverRoot, program: PathBuf) -> Result<Self, RootProgramError> {
        let loader = if root.path() == Path::new("/") {
            None
        } else {
            let interpreter = elf::interpreter(&program);
            let interpreter = interpreter.map_err(|source| RootProgramError::Unreadable {
                program: program.clone(),
                source,
            })?;
            interpreter
                .map(|path| Loader::find(&root, &program, path))
                .transpose()?
        };
        Ok(Self {
            root,
            program,
            loader,
        })
    }

    /// The root that it was found in: the one that was searched, or one within it.
    pub fn root(&self) -> &DriverRoot {
        &self.root
    }

    /// A command that runs it, without arguments of its own yet, in the caller's root directory and with the
    /// caller's environment but for what would change its libraries.
    ///
    /// [`Command::get_program`] is the loader, if there is one.
    pub fn command(&self) -> Command {
        let mut command = match &self.loader {
            None => Command::new(&self.program),
            Some(loader) => {
                let mut command = Command::new(&loader.path);
                // The cache is the caller's, and names the caller's libraries.
                command.arg("--inhibit-cache").arg("--library-path");
                command.arg(join(&loader.library_dirs));
                command.arg(&self.program);
                command
            }
        };
        for variable in ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"] {
            command.env_remove(variable);
        }
        command
    }
}

impl fmt::Display for RootProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", OneLine(self.program.display()))?;
        if let Some(loader) = &self.loader {
            write!(f, " by {}", OneLine(loader.path.display()))?;
        }
        Ok(())
    }
}

// === impl Loader ===

impl Loader {
    fn find(root: &DriverRoot, program: &Path, inside: PathBuf) -> Result<Self, RootProgramError> {
        let path = resolve::regular_file(root.path(), &inside).map_err(|reason| {
            RootProgramError::NoLoader {
                program: program.to_owned(),
                loader: inside,
                root: root.path().to_owned(),
                reason,
            }
        })?;
        Ok(Self {
            path,
            library_dirs: root.library_dirs(),
        })
    }
}

/// As the loader reads it. A path with a colon cannot be written; there is none in a driver root.
fn join(dirs: &[PathBuf]) -> std::ffi::OsString {
    let mut joined = std::ffi::OsString::new();
    for (index, dir) in dirs.iter().enumerate() {
        if index > 0 {
            joined.push(":");
        }
        joined.push(dir);
    }
    joined
}

#[cfg(test)]
#[path = "root_program_tests.rs"]
mod tests;
