//! Installs the hook: the runtime runs it on the host, outside this container.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dra_common::error_chain;
use durable_file::{Dir as _, OsDir};
use plugin_parts::DATA_MODE;

/// Where the image has the program.
const OWN: &str = "/usr/bin/nvidia-cdi-hook";

/// The Go driver's name of the program in the same directory: its specs name this path, and it overwrites the file.
const GO_NAME: &str = "nvidia-cdi-hook";

/// The name of the program for our own specs.
const NAME: &str = "imex-dra-cdi-hook";

const MODE: u32 = 0o755;

/// Copies the program to `data_dir`, which has the same path on the host, unless it is there. Returns the path for
/// specs.
///
/// # Errors
/// Why it cannot be copied, in one line.
// req: GPU-38
pub(crate) fn install(data_dir: &Path) -> Result<PathBuf, String> {
    install_from(Path::new(OWN), data_dir)
}

fn install_from(own: &Path, data_dir: &Path) -> Result<PathBuf, String> {
    let program = fs::read(own).map_err(|error| unreadable(own, &error))?;
    let dir = OsDir::create(data_dir, DATA_MODE).map_err(|error| error_chain(&error))?;
    for name in [GO_NAME, NAME] {
        dir.ensure(name, &program, MODE)
            .map_err(|error| error_chain(&error))?;
    }
    Ok(path(data_dir))
}

/// The path for specs.
pub(crate) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

fn unreadable(program: &Path, error: &io::Error) -> String {
    format!(
        "the hook {} cannot be read: {error}; use the image of this chart, or set --nvidia-cdi-hook-path",
        program.display()
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    // req: GPU-38
    #[test]
    fn the_hook_is_installed_once_for_own_specs_and_once_for_those_of_the_go_driver() {
        let root = tempfile::tempdir().unwrap();
        let (own, data) = (root.path().join("hook"), root.path().join("data"));
        let missing = install_from(&own, &data).unwrap_err();
        assert!(missing.contains("--nvidia-cdi-hook-path"), "{missing}");
        fs::write(&own, "a program").unwrap();
        let path = install_from(&own, &data).unwrap();
        let installed = fs::metadata(&path).unwrap();
        assert_eq!(installed.permissions().mode() & 0o777, MODE);
        assert_eq!(install_from(&own, &data).unwrap(), path);
        let again = fs::metadata(&path).unwrap();
        assert_eq!(again.ino(), installed.ino(), "not written again");
        // The Go driver was here.
        fs::write(data.join(GO_NAME), "another program").unwrap();
        install_from(&own, &data).unwrap();
        assert_eq!(fs::read(data.join(GO_NAME)).unwrap(), b"a program");
        assert_eq!(fs::read(path).unwrap(), b"a program");
    }
}
