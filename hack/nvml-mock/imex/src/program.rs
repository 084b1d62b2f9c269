//! A program's driver root and its log.

use std::env;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The driver root from which this program was started: the part before `/usr/bin/` in its path, otherwise
/// its directory. Not from `/proc/self/exe`: that may be the loader.
pub fn driver_root() -> PathBuf {
    let name = env::args_os().next().unwrap_or_default();
    root_of(Path::new(&name))
}

fn root_of(program: &Path) -> PathBuf {
    let bin = program.parent().unwrap_or_else(|| Path::new(""));
    let root = bin
        .ends_with("usr/bin")
        .then(|| bin.parent().and_then(Path::parent))
        .flatten()
        .unwrap_or(bin);
    if root.as_os_str().is_empty() {
        return PathBuf::from(".");
    }
    root.to_owned()
}

/// Writes one line of the daemon's log, unbuffered.
pub fn log(line: &str) {
    // The reader may have closed the pipe.
    let _ = writeln!(io::stdout().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_the_part_before_usr_bin() {
        for (program, root) in [
            ("/driver-root/usr/bin/nvidia-imex", "/driver-root"),
            ("/usr/bin/nvidia-imex", "/"),
            ("/some/dir/nvidia-imex", "/some/dir"),
            ("nvidia-imex", "."),
        ] {
            assert_eq!(root_of(Path::new(program)), Path::new(root), "{program}");
        }
    }
}
