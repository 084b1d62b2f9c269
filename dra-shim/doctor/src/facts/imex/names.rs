//! The names that a host resolves without asking anybody: `hosts(5)`, `hostname(5)`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::files::HostFiles;

/// Where a host has its own name.
const OWN: [&str; 2] = ["/etc/hostname", "/proc/sys/kernel/hostname"];

/// Names, in small letters.
#[derive(Debug, Default)]
pub(super) struct Names {
    addresses: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The host's own, without its domain: its resolver may know that by itself.
    own: BTreeSet<String>,
}

// === impl Names ===

impl Names {
    pub(super) fn read(files: &HostFiles) -> Self {
        let hosts = files.text_if_readable("/etc/hosts").unwrap_or_default();
        let own = OWN.iter().filter_map(|path| files.text_if_readable(path));
        Self {
            addresses: addresses(&hosts),
            own: own.map(|name| first_label(name.trim())).collect(),
        }
    }

    /// Whether a name is or may be that of a host with these addresses. Others than the
    /// resolver know a name that the file has not, and a loopback address stands for the
    /// host itself.
    pub(super) fn may_be(&self, name: &str, host: &BTreeSet<IpAddr>) -> bool {
        let may_be = |it: &IpAddr| it.is_loopback() || host.contains(it);
        let found = self.addresses.get(&name.to_lowercase());
        let is_of_file = found.is_none_or(|addresses| addresses.iter().any(may_be));
        is_of_file || self.own.contains(&first_label(name))
    }
}

fn addresses(hosts: &str) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let mut found: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for line in hosts.lines() {
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        let mut words = line.split_whitespace();
        let Some(address) = words.next().and_then(|it| it.parse().ok()) else {
            continue;
        };
        for name in words {
            found
                .entry(name.to_lowercase())
                .or_default()
                .insert(address);
        }
    }
    found
}

fn first_label(name: &str) -> String {
    let label = name.split_once('.').map_or(name, |(label, _)| label);
    label.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_anothers_only_if_the_file_has_it_with_other_addresses() {
        let hosts = "127.0.0.1 localhost\n127.0.1.1 tray03 # as Debian has it\n\
                     10.0.0.1 Tray01.rack tray01\n10.0.0.2 tray02\nnonsense tray05\n";
        let names = Names {
            addresses: addresses(hosts),
            own: BTreeSet::from(["tray04".to_owned()]),
        };
        let host = BTreeSet::from(["10.0.0.1".parse().unwrap()]);
        for name in ["tray01", "TRAY01.rack", "tray03", "tray04.rack", "tray05"] {
            assert!(names.may_be(name, &host), "{name}");
        }
        assert!(!names.may_be("tray02", &host));
        assert!(Names::default().may_be("tray02", &host));
    }
}
