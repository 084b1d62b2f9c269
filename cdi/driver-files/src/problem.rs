//! What is wrong with an installed driver.

use dra_common::{Advice, OneLine};
use nvml_session::RejectReason;

use crate::version::DriverVersion;

/// Something wrong with the files of a driver. The other files are found all the same.
///
/// Paths are those inside the driver root.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error, Advice)]
pub enum Problem {
    /// The driver root has no usable file of this name, and CUDA needs it.
    #[error("{name} was not found in the driver root")]
    #[advice(
        code = "driver-library-missing",
        hint = "install the driver completely, and check that the files are of the kernel module's version"
    )]
    MissingLibrary {
        /// The file's name, with the version.
        name: String,
    },
    /// A directory also has libraries of another driver version. They are not given to containers.
    #[error(
        "{} has files of driver {version}: {}",
        OneLine(dir),
        OneLine(shortened(names))
    )]
    #[advice(
        code = "driver-version-mixed",
        hint = "remove the files of the other driver version; if a driver was just upgraded, restart the node or reload the kernel module"
    )]
    OtherVersion {
        /// The directory.
        dir: String,
        /// The other version.
        version: DriverVersion,
        /// The files, sorted.
        names: Vec<String>,
    },
    /// A file of the driver cannot be used, for example because a link leads nowhere or the file is truncated.
    #[error("{} {reason}", OneLine(path))]
    #[advice(
        code = "driver-file-unusable",
        hint = "wait if the driver is still being installed; otherwise install it again"
    )]
    UnusableFile {
        /// The path that was found.
        path: String,
        /// Why it cannot be used, as the end of a sentence.
        reason: String,
    },
    /// The path of a file has characters that a hook's arguments or the loader's configuration cannot carry.
    #[error("{} has a name that arguments of hooks cannot carry", OneLine(path))]
    #[advice(
        code = "driver-path-odd",
        hint = "use letters, digits and ._+-/@=~ only, with neither - nor . at the beginning, or remove the file if it does not belong to the driver"
    )]
    OddPath {
        /// The path; other characters than those of UTF-8 are replaced.
        path: String,
    },
}

/// The number of names that a message lists.
const LISTED: usize = 3;

fn shortened(names: &[String]) -> String {
    let listed: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    let listed = listed.join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

// === impl Problem ===

impl Problem {
    pub(crate) fn unusable(path: &str, reason: &RejectReason) -> Self {
        Self::UnusableFile {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_lists_three_names_and_counts_the_others() {
        let names = |count: usize| (0..count).map(|n| format!("lib{n}.so")).collect::<Vec<_>>();
        assert_eq!(shortened(&names(1)), "lib0.so");
        assert_eq!(shortened(&names(3)), "lib0.so, lib1.so, lib2.so");
        assert_eq!(shortened(&names(5)), "lib0.so, lib1.so, lib2.so and 2 more");
    }
}
