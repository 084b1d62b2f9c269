//! The connection that a runtime passes to a plugin that it starts.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Environment variables with which NRI starts a plugin.
const SOCKET: &str = "NRI_PLUGIN_SOCKET";
const NAME: &str = "NRI_PLUGIN_NAME";
const INDEX: &str = "NRI_PLUGIN_IDX";

/// The identity and the connection of a plugin that a runtime has started.
#[derive(Debug)]
pub(crate) struct Inherited {
    pub(crate) name: Option<String>,
    pub(crate) index: Option<String>,
    pub(crate) stream: UnixStream,
}

// === impl Inherited ===

impl Inherited {
    /// Takes the connection from the environment. `None`: the runtime has not started this process.
    pub(crate) fn find() -> Option<Result<Self, String>> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let number = variable(SOCKET)?;
        Some(connection(&number).map(|stream| Self {
            name: variable(NAME),
            index: variable(INDEX),
            stream,
        }))
    }
}

fn connection(number: &str) -> Result<UnixStream, String> {
    let fd = number
        .parse()
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or_else(|| format!("{SOCKET} is {number:?}, not a file descriptor"))?;
    let stream = UnixStream::from(
        duplicate(fd).map_err(|error| format!("file descriptor {fd} of {SOCKET}: {error}"))?,
    );
    // Fails for anything but a connected unix socket.
    match stream.peer_addr() {
        Ok(_) => Ok(stream),
        Err(error) => Err(format!(
            "file descriptor {fd} of {SOCKET} is not a connected unix socket: {error}"
        )),
    }
}

/// Duplicates the file descriptor `fd`. Taking the number itself would need `unsafe`, because
/// other code of the process may own it. So the kernel copies it, as between processes (Linux
/// 5.6). `fd` stays open until the process ends.
fn duplicate(fd: i32) -> rustix::io::Result<OwnedFd> {
    let this = pidfd_open(getpid(), PidfdFlags::empty())?;
    pidfd_getfd(this.as_fd(), fd, PidfdGetfdFlags::empty())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_socket_is_duplicated_by_its_number() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut taken = connection(&theirs.as_raw_fd().to_string()).unwrap();
        taken.write_all(b"x").unwrap();
        let mut read = [0];
        ours.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"x");
    }

    #[test]
    fn the_error_names_a_number_that_is_not_a_connected_socket() {
        for (number, part) in [("x", "is \"x\""), ("-1", "is \"-1\""), ("9999", "9999")] {
            let error = connection(number).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let file = tempfile::tempfile().unwrap();
        let error = connection(&file.as_raw_fd().to_string()).unwrap_err();
        assert!(error.contains("not a connected unix socket"), "{error}");
    }
}
