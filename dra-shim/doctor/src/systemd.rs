//! The units of a host's systemd: systemd.unit(5).

use crate::host::Host;

/// The directories of units; systemd uses the first that has the unit.
const DIRS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// The possible paths of a unit; the first that exists counts.
pub(crate) fn unit_paths(unit: &str) -> impl DoubleEndedIterator<Item = String> {
    DIRS.iter().map(move |dir| format!("{dir}/{unit}"))
}

/// The suffixes of directories with links that start units.
const STARTING: [&str; 3] = [".wants", ".requires", ".upholds"];

/// Whether any other unit starts this one.
pub(crate) fn is_wanted(host: &Host, unit: &str) -> bool {
    let starts = |name: &String| STARTING.iter().any(|end| name.ends_with(end));
    DIRS.iter().any(|dir| {
        let names = host.list(dir).into_iter().filter(starts);
        let mut links = names.map(|name| host.resolve(format!("{dir}/{name}/{unit}")));
        links.any(|link| link.symlink_metadata().is_ok())
    })
}
