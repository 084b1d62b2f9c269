//! What a hook does, in order.

use std::path::PathBuf;
use std::time::Duration;

use crate::compat::{self, CompatStep};
use crate::error::HookError;
use crate::links::{self, Link};
use crate::root::Root;
use crate::{ldconfig, loader_config, params, profile};

/// The steps of one hook. NVIDIA's sub-commands have one each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Where the container's state is read, if not from standard input.
    pub(crate) state: Option<PathBuf>,
    pub(crate) links: Vec<Link>,
    pub(crate) compat: Option<CompatStep>,
    pub(crate) cache: Option<CacheStep>,
    /// Whether the driver's libraries must not create device nodes.
    pub(crate) denies_device_files: bool,
    pub(crate) writes_profile: bool,
}

/// How to build the loader's cache.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CacheStep {
    pub(crate) folders: Vec<String>,
    pub(crate) ldconfig: PathBuf,
    pub(crate) timeout: Duration,
}

// === impl Steps ===

impl Steps {
    /// Runs the steps in an order in which each sees the ones that it needs: the cache is built from links and
    /// folders.
    pub(crate) fn run(&self, root: &Root) -> Result<(), HookError> {
        links::create(root, &self.links)?;
        if let Some(step) = &self.compat {
            compat::decide(root, step)?;
        }
        if let Some(step) = &self.cache {
            let unreached = loader_config::add_folders(root, &step.folders)?;
            ldconfig::run(root, &step.ldconfig, step.timeout, &unreached)?;
        }
        if self.denies_device_files {
            params::deny_device_files(root)?;
        }
        if self.writes_profile {
            profile::write(root)?;
        }
        Ok(())
    }
}
