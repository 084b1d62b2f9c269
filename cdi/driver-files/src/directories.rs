//! The directories of a driver root that may have libraries of the driver.

use dra_common::read_bounded;

use crate::ld_cache;
use crate::tree::{Tree, split};

const LD_CACHE: &str = "/etc/ld.so.cache";

/// Longest cache that is read: 100 times that of a desktop.
const MAX_CACHE: u64 = 16 << 20;

/// Libraries that every driver has, by the names that programs load. Links of a distribution lead from these names to
/// the driver's directory.
const ENTRY_POINTS: [&str; 2] = ["libcuda.so.1", "libnvidia-ml.so.1"];

/// Existing directories without links in their paths, without duplicates: the known ones in the order of the search,
/// those of `ld.so.cache`, and those that links in them lead to.
pub(crate) fn library_dirs(tree: &Tree<'_>) -> Vec<String> {
    let mut dirs = Vec::new();
    for dir in known(tree).into_iter().chain(cached(tree)) {
        add(&mut dirs, dir);
    }
    for dir in dirs.clone() {
        for name in ENTRY_POINTS {
            if let Ok(file) = tree.file(&format!("{dir}/{name}")) {
                add(&mut dirs, split(&file).0.to_owned());
            }
        }
    }
    dirs
}

/// Not the root itself: a loader does not search it.
fn add(dirs: &mut Vec<String>, dir: String) {
    if dir.len() > 1 && !dirs.contains(&dir) {
        dirs.push(dir);
    }
}

fn known(tree: &Tree<'_>) -> Vec<String> {
    let root = tree.0.path();
    let dirs = tree.0.library_dirs();
    let inside = dirs.iter().filter_map(|dir| dir.strip_prefix(root).ok());
    let texts = inside.filter_map(|dir| Some(format!("/{}", dir.to_str()?)));
    texts.collect()
}

/// A cache that cannot be read has no directories: not every root has one.
fn cached(tree: &Tree<'_>) -> Vec<String> {
    let Ok(path) = tree.file(LD_CACHE) else {
        return Vec::new();
    };
    let Ok(cache) = read_bounded(&tree.on_host(&path), MAX_CACHE) else {
        return Vec::new();
    };
    let dirs = ld_cache::directories(&cache).into_iter();
    dirs.filter_map(|dir| tree.resolve(dir).ok()).collect()
}
