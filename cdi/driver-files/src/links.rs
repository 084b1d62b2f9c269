//! The links that a container needs beside the driver's libraries.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::files::{DriverFile, Link};
use crate::libraries::{Library, split_version};
use crate::tree::{Tree, split};

/// Links that programs expect although the driver's installer does not make all of them: the library that causes the
/// link, the link and its target. `*` stands for the library's name.
const EXPECTED: [(&str, &str, &str); 6] = [
    // Many programs open `libcuda.so`.
    ("libcuda", "libcuda.so", "libcuda.so.1"),
    // Indirect GLX of libglvnd.
    ("libGLX_nvidia", "libGLX_indirect.so.0", "*"),
    (
        "libnvidia-opticalflow",
        "libnvidia-opticalflow.so",
        "libnvidia-opticalflow.so.1",
    ),
    // Mesa's GBM finds the driver's backend by this name.
    (
        "libnvidia-allocator",
        "gbm/nvidia-drm_gbm.so",
        "../libnvidia-allocator.so.1",
    ),
    (
        "libnvidia-vulkan-producer",
        "libnvidia-vulkan-producer.so",
        "*",
    ),
    ("libglxserver_nvidia", "libglxserver_nvidia.so", "*"),
];

/// The links for these libraries and modules of the X server, sorted by path. A link never takes the place of a file.
pub(crate) fn links(
    tree: &Tree<'_>,
    libraries: &[Library],
    xorg_modules: &[DriverFile],
) -> Vec<Link> {
    let libraries_paths = libraries.iter().map(|library| &library.file);
    let files: Vec<_> = libraries_paths.chain(xorg_modules).collect();
    let mut links = BTreeMap::new();
    for file in &files {
        for link in expected(file) {
            links.entry(link.path).or_insert(link.target);
        }
    }
    for library in libraries {
        add_soname(tree, library, &mut links);
        add_dev_link(tree, library, &mut links);
    }
    let taken: BTreeSet<_> = files.iter().map(|file| &file.container_path).collect();
    let links = links.into_iter();
    links
        .filter(|(path, _)| !taken.contains(path))
        .map(|(path, target)| Link { path, target })
        .collect()
}

fn expected(file: &DriverFile) -> impl Iterator<Item = Link> {
    let (dir, name) = split(&file.container_path);
    let stem = split_version(name).map(|(stem, _)| stem);
    let matching = EXPECTED.iter().filter(move |it| Some(it.0) == stem);
    matching.map(move |(_, link, target)| Link {
        path: format!("{dir}/{link}"),
        target: target.replace('*', name),
    })
}

/// The link that programs load. If two libraries have the same SONAME, the host's link decides.
fn add_soname(tree: &Tree<'_>, library: &Library, links: &mut BTreeMap<String, String>) {
    let Some(soname) = &library.soname else {
        return;
    };
    let name = library.name();
    if soname == name {
        return;
    }
    match links.entry(format!("{}/{soname}", library.dir())) {
        Entry::Vacant(entry) => {
            entry.insert(name.to_owned());
        }
        Entry::Occupied(mut entry) => {
            let host_link = tree.file(&format!("{}/{soname}", library.host_dir));
            if host_link.is_ok_and(|file| file == library.file.host_path) {
                entry.insert(name.to_owned());
            }
        }
    }
}

/// The link for linking programs, such as `libnvcuvid.so`, if the host has it.
fn add_dev_link(tree: &Tree<'_>, library: &Library, links: &mut BTreeMap<String, String>) {
    let soname = library.soname.as_deref();
    let soname = soname.unwrap_or_else(|| library.name());
    let Some((stem, _)) = split_version(soname) else {
        return;
    };
    let link = format!("{stem}.so");
    if tree.is_link(&format!("{}/{link}", library.host_dir)) {
        let entry = links.entry(format!("{}/{link}", library.dir()));
        entry.or_insert_with(|| soname.to_owned());
    }
}
