//! Loads NVML and opens a session.

use crate::current_call::CurrentCall;
use crate::driver_root::DriverRoot;
use crate::load_path::LoadPath;
use crate::open_error::{NoLibrary, OpenError};
use crate::sys::{Library, Session};

/// Opens sessions of the `libnvidia-ml.so.1` of a driver root.
#[derive(Debug)]
pub struct Nvml {
    root: DriverRoot,
    load_path: LoadPath,
    current_call: CurrentCall,
}

// === impl Nvml ===

impl Nvml {
    /// Creates an opener for the driver below `root`. Does no I/O.
    pub fn new(root: DriverRoot) -> Self {
        Self {
            root,
            load_path: LoadPath::default(),
            current_call: CurrentCall::default(),
        }
    }

    /// As [`new`](Self::new), with calls that are tracked so.
    pub(crate) fn tracked(root: DriverRoot, current_call: CurrentCall) -> Self {
        Self {
            current_call,
            ..Self::new(root)
        }
    }

    /// Finds and loads the library, and opens a session. So each session uses the library that
    /// exists now, even if the driver was installed or replaced since the last one.
    ///
    /// Blocks as long as the driver does: seconds are common, and a hanging driver never
    /// returns.
    ///
    /// # Errors
    ///
    /// Any [`OpenError`]. Retry, because the driver may be installed later.
    pub fn open(&self) -> Result<Session, OpenError> {
        let path = self.root.find_library().map_err(NoLibrary::from)?;
        let load_path = self.load_path.for_library(&path);
        let library = Library::load(&load_path, self.current_call.clone()).map_err(|message| {
            let prefix = format!("{}: ", load_path.display());
            NoLibrary::Unloadable {
                path,
                reason: message.strip_prefix(&prefix).unwrap_or(&message).to_owned(),
            }
        })?;
        Ok(library.open()?)
    }

    /// The call in progress, of any session of this opener: the function's name in `nvml.h`,
    /// or `dlopen`. `None` between calls.
    ///
    /// Does not wait for the call, so another thread can report where a session hangs.
    pub fn current_call(&self) -> Option<&'static str> {
        self.current_call.get()
    }
}
