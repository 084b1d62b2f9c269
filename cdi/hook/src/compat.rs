//! Forward compatibility: a CUDA image may have a `libcuda` that is newer than the host's driver, and works with it.

use std::path::{Path, PathBuf};

use nix::sys::stat::SFlag;
use nvml_session::elf::{self, Note};
use serde::Deserialize;

use crate::error::HookError;
use crate::root::{Entry, Root, fd_path};
use crate::version::Version;

/// NVIDIA's name is `00-compat-*.conf`: ahead of other folders, the driver's included.
const CONFIG: &str = "/etc/ld.so.conf.d/00-compat-nvidia-cdi-hook.conf";
const LIBRARY: &str = "libcuda.so.";
/// The note's owner.
const OWNER: &str = "NVIDIA Corporation";

/// How to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompatStep {
    /// Where the image has its compatibility libraries.
    pub(crate) folder: PathBuf,
    pub(crate) host_driver: Option<String>,
    /// Decides if the driver's version is unknown.
    pub(crate) host_cuda: Option<String>,
}

/// What a compatibility library's ELF note says.
#[derive(Debug, Deserialize, PartialEq)]
struct Compatibility {
    #[serde(rename = "CUDA version", default)]
    cuda: String,
    /// The driver branches with which it works.
    #[serde(default)]
    driver: Vec<u64>,
}

/// Puts the image's compatibility libraries first in the loader's folders if they are to be used, else takes away
/// the entry of an earlier start of the container.
pub(crate) fn decide(root: &Root, step: &CompatStep) -> Result<(), HookError> {
    let config = Path::new(CONFIG);
    match chosen_folder(root, step)? {
        Some(folder) => {
            let line = format!("{}\n", folder.display());
            let written = root.replace_file(config, &line, 0o644);
            written.map_err(HookError::at("write", config))
        }
        None => root
            .remove_file(config)
            .map_err(HookError::at("remove", config)),
    }
}

/// The folder of the compatibility libraries, without links.
fn chosen_folder(root: &Root, step: &CompatStep) -> Result<Option<PathBuf>, HookError> {
    let at = |action| HookError::at(action, &step.folder);
    let entries = root.list(&step.folder).map_err(at("list"))?;
    let mut libraries = entries.into_iter().flatten().filter(is_library);
    let (Some(library), None) = (libraries.next(), libraries.next()) else {
        return Ok(None);
    };
    let path = step.folder.join(&library.name);
    let file = root.file(&path).map_err(HookError::at("open", &path))?;
    // A library that cannot be parsed is decided on by its name.
    let notes = elf::notes(&fd_path(&file)).unwrap_or_default();
    let version = library.name.strip_prefix(LIBRARY).and_then(Version::parse);
    if !is_used(note_of(&notes).as_ref(), version, step) {
        return Ok(None);
    }
    let path = root.path_of(&file).map_err(HookError::at("find", &path))?;
    Ok(path.parent().map(Path::to_owned))
}

/// Whether it is named `libcuda.so.*.*` and is no link.
fn is_library(entry: &Entry) -> bool {
    let is_file = SFlag::from_bits_truncate(entry.stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
    let version = entry.name.strip_prefix(LIBRARY);
    is_file && version.is_some_and(|version| version.contains('.'))
}

fn note_of(notes: &[Note]) -> Option<Compatibility> {
    let mut own = notes.iter().filter(|note| note.name == OWNER);
    own.find_map(|note| {
        let end = note.content.iter().rposition(|byte| *byte != 0)?;
        serde_json::from_slice(note.content.get(..=end)?).ok()
    })
}

fn is_used(note: Option<&Compatibility>, version: Option<Version>, step: &CompatStep) -> bool {
    let parse = |text: &Option<String>| text.as_deref().and_then(Version::parse);
    let host = version.zip(parse(&step.host_driver));
    match (note, host) {
        (Some(note), Some((compat, host))) => note.driver.contains(&host.major()) && compat > host,
        (Some(note), None) => Version::parse(&note.cuda)
            .zip(parse(&step.host_cuda))
            .is_some_and(|(compat, host)| compat > host),
        (None, Some((compat, host))) => step.host_cuda.is_none() && compat.major() > host.major(),
        (None, None) => false,
    }
}

#[cfg(test)]
#[path = "compat_tests.rs"]
mod tests;
