//! Symbolic links in the container.

use std::path::PathBuf;

use crate::error::HookError;
use crate::root::Root;

/// A link to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// What the link contains.
    pub(crate) target: PathBuf,
    /// The link's path.
    pub(crate) path: PathBuf,
}

/// Creates the links and their missing parent directories. A link that exists is kept; another file is replaced.
pub(crate) fn create(root: &Root, links: &[Link]) -> Result<(), HookError> {
    for Link { target, path } in links {
        let linked = root.link(target, path);
        linked.map_err(HookError::at("create the link", path))?;
    }
    Ok(())
}

// === impl Link ===

impl Link {
    /// Parses `TARGET::LINK`.
    pub(crate) fn parse(text: &str) -> Result<Self, HookError> {
        let parts: Vec<&str> = text.split("::").collect();
        match parts.as_slice() {
            [target, path] if !target.is_empty() && !path.is_empty() => Ok(Self {
                target: target.into(),
                path: path.into(),
            }),
            _ => Err(HookError::Usage(format!(
                "--link {text} is not TARGET::LINK"
            ))),
        }
    }
}
