//! A program of a driver root, run with that root's dynamic loader.
//!
//! Unlike with chroot, the program keeps the caller's root directory: it reads the caller's `/etc/hosts` and
//! opens the caller's sockets. Its code and libraries come from the driver root.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use dra_common::{Advice, OneLine};

use crate::driver_root::DriverRoot;
use crate::elf;
use crate::not_found::{DriverFileNotFound, RejectReason};
use crate::resolve;

/// A program of a [`DriverRoot`] that can be run from outside of that root.
///
/// Displays as its path and its loader's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootProgram {
    root: DriverRoot,
    program: PathBuf,
    /// `None` if the kernel can run the program directly.
    loader: Option<Loader>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Loader {
    path: PathBuf,
    library_dirs: Vec<PathBuf>,
}

/// Error of [`RootProgram::find`].
#[non_exhaustive]
#[derive(Debug, thiserror::Error, Advice)]
#[advice(
    hint = "set the driver root to a directory with a complete root file system, or to / if the driver is installed on the host"
)]
pub enum RootProgramError {
    /// The program is in none of the usual places.
    #[error("{0}")]
    #[advice(
        code = "program-missing",
        hint = "in the driver's root, install the nvidia-imex package of the driver's branch"
    )]
    NotFound(DriverFileNotFound),
    /// The program cannot be read.
    #[error("cannot read {}", OneLine(program.display()))]
    #[advice(code = "program-unreadable")]
    Unreadable {
        /// The program.
        program: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The program's loader is not in its root.
    #[error(
        "{} cannot start in the root {}: its loader {} {reason}",
        OneLine(program.display()),
        OneLine(root.display()),
        OneLine(loader.display())
    )]
    #[advice(code = "loader-missing")]
    NoLoader {
        /// The program.
        program: PathBuf,
        /// The loader's path inside the root.
        loader: PathBuf,
        /// The root.
        root: PathBuf,
        /// The problem of the loader.
        reason: RejectReason,
    },
}

// === impl RootProgram ===

impl RootProgram {
    /// Finds `name` in the first of `root` and the roots [within it](DriverRoot::with_nested) that has it, and
    /// its loader (`PT_INTERP`) in the same root.
    ///
    /// If the root is `/`, or the program has no loader (statically linked programs, scripts), the program is run
    /// directly.
    ///
    /// # Errors
    ///
    /// Any [`RootProgramError`]. Retry, because the driver may be installed later.
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

    /// The program's root: the searched root, or a root within it.
    pub fn root(&self) -> &DriverRoot {
        &self.root
    }

    /// Creates a command that runs the program, without arguments, in the caller's root directory. It has the
    /// caller's environment, except variables that would change the program's libraries.
    ///
    /// [`Command::get_program`] is the loader, if there is one.
    pub fn command(&self) -> Command {
        let mut command = match &self.loader {
            None => Command::new(&self.program),
            Some(loader) => {
                let mut command = Command::new(&loader.path);
                // The loader's cache in the caller's root has the caller's libraries.
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

/// Joins the paths for the loader. A path must not have a colon; driver roots have none.
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
