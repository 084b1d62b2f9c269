//! Errors of reading or using a host's files, with hints.

use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use dra_common::error_chain;

use crate::host::Host;

/// An error of one of the libraries that read a host, reduced to what a finding
/// needs. Paths in it are the host's own names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFacts {
    /// The error's stable code, which becomes the finding's id.
    pub code: &'static str,
    /// The error and its sources, on one line.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// `EPERM`: the error for a file with an attribute, such as immutable, that blocks root, too.
/// Missing permissions give `EACCES`.
const NOT_PERMITTED: i32 = 1;

// === impl ErrorFacts ===

impl ErrorFacts {
    /// `path`: the argument of the library, for which the host may have another name.
    pub(crate) fn new(
        host: &Host,
        path: &Path,
        error: &dyn Error,
        code: &'static str,
        hint: &str,
    ) -> Self {
        Self {
            code,
            message: host.with_host_names(&error_chain(error), path),
            hint: hint.to_owned(),
        }
    }
}

/// The hint for a file that the system refused this process. It depends on whether this process
/// runs as root.
pub fn refusal_hint(error: &(dyn Error + 'static)) -> &'static str {
    hint_for(error, is_root())
}

/// Root is not advised to be root.
fn hint_for(error: &(dyn Error + 'static), is_root: bool) -> &'static str {
    let Some(error) = system_error(error) else {
        return "check what is at this path";
    };
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::ReadOnlyFilesystem, _) => {
            "the file system is read-only here: run the command on the host, or mount the host's root \
             writable into this container"
        }
        (io::ErrorKind::PermissionDenied, _) if !is_root => "run the command as root",
        (_, Some(NOT_PERMITTED)) => {
            "root is denied access, too: check the file and its directory for an immutable or \
             append-only attribute (lsattr -d, chattr -ia)"
        }
        (io::ErrorKind::PermissionDenied, _) => {
            "root is denied access here: run the command on the host, outside a container or user \
             namespace, and check dmesg for SELinux denials"
        }
        _ => "check what is at this path, and check the kernel log for disk errors",
    }
}

/// The system's error in an error's chain of sources, if there is one.
pub(crate) fn system_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut cause = error;
    loop {
        match cause.downcast_ref() {
            Some(found) => return Some(found),
            None => cause = cause.source()?,
        }
    }
}

/// Whether this process runs as root.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_for_root_is_not_to_be_root() {
        let hint = |number, is_root| hint_for(&io::Error::from_raw_os_error(number), is_root);
        let (not_permitted, no_rights, read_only) = (NOT_PERMITTED, 13, 30);
        assert_eq!(hint(not_permitted, false), "run the command as root");
        assert_eq!(hint(no_rights, false), "run the command as root");
        for (number, word) in [
            (not_permitted, "chattr"),
            (no_rights, "SELinux"),
            (read_only, "writable"),
            (5, "disk"),
        ] {
            let hint = hint(number, true);
            assert!(hint.contains(word) && !hint.contains("as root"), "{hint}");
        }
        assert!(hint(read_only, false).contains("writable"));
    }
}
