//! The addresses by which a daemon finds itself in the node list (`proc_pid_net(5)`), and the
//! names that its host resolves locally (`hosts(5)`, `hostname(5)`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use crate::host::Host;
use crate::processes::all_are_seen;

/// The files with a host's own name.
const OWN: [&str; 2] = ["/etc/hostname", "/proc/sys/kernel/hostname"];

/// The names that a host resolves locally, in lower case.
#[derive(Debug, Default)]
pub(super) struct Names {
    addresses: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The host's own name without its domain: a resolver may know it without a file.
    own: BTreeSet<String>,
}

/// The addresses of the host, from its first process. Empty if unknown: in a container, the
/// first process may be the container's.
pub(super) fn of_host(host: &Host) -> BTreeSet<IpAddr> {
    if !all_are_seen(host) {
        return BTreeSet::new();
    }
    let own = of_process(host, 1);
    if own.is_empty() && host.has_own_net() {
        return in_directory(host, "/proc/net");
    }
    own
}

/// The addresses of a process's network namespace; empty if unknown.
pub(super) fn of_process(host: &Host, pid: u32) -> BTreeSet<IpAddr> {
    in_directory(host, &format!("/proc/{pid}/net"))
}

fn in_directory(host: &Host, dir: &str) -> BTreeSet<IpAddr> {
    let text = |name: &str| host.text_if_readable(&format!("{dir}/{name}"));
    let v4 = text("fib_trie").unwrap_or_default();
    let v6 = text("if_inet6").unwrap_or_default();
    local(&v4).chain(assigned(&v6)).collect()
}

/// The local addresses in the kernel's routing trie. A leaf `|-- 10.0.0.1` is followed by its
/// routes; a local address has the route `/32 host LOCAL`.
fn local(fib_trie: &str) -> impl Iterator<Item = IpAddr> {
    let mut leaf = None;
    fib_trie.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        }
        leaf.filter(|_| line == "/32 host LOCAL")
    })
}

/// The addresses in lines `fe800000000000000000000000000001 02 40 20 80 eth0`.
fn assigned(if_inet6: &str) -> impl Iterator<Item = IpAddr> {
    let addresses = if_inet6
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    addresses.filter_map(|hex| {
        let bits = u128::from_str_radix(hex, 16).ok()?;
        Some(Ipv6Addr::from(bits).into())
    })
}

// === impl Names ===

impl Names {
    pub(super) fn read(host: &Host) -> Self {
        let hosts = host.text_if_readable("/etc/hosts").unwrap_or_default();
        let own = OWN.iter().filter_map(|path| host.text_if_readable(path));
        Self {
            addresses: by_name(&hosts),
            own: own.map(|name| first_label(name.trim())).collect(),
        }
    }

    /// Whether a name is or may be that of a host with these addresses. A name server may
    /// resolve a name that is not in the file, and a loopback address stands for the host
    /// itself.
    pub(super) fn may_be(&self, name: &str, host: &BTreeSet<IpAddr>) -> bool {
        let may_be = |it: &IpAddr| it.is_loopback() || host.contains(it);
        let found = self.addresses.get(&name.to_lowercase());
        let is_of_file = found.is_none_or(|addresses| addresses.iter().any(may_be));
        is_of_file || self.own.contains(&first_label(name))
    }
}

fn by_name(hosts: &str) -> BTreeMap<String, BTreeSet<IpAddr>> {
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
    fn only_local_addresses_belong_to_the_host() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     \
            +-- 10.1.0.0/24 2 0 1\n        |-- 10.1.0.0\n           /24 link UNICAST\n        \
            |-- 10.1.0.7\n           /32 host LOCAL\n     |-- 10.1.0.255\n        /32 link BROADCAST\n";
        let found: Vec<IpAddr> = local(trie).collect();
        assert_eq!(found, ["10.1.0.7".parse::<IpAddr>().unwrap()]);
        let of_six = "fd000000000000000000000000000001 02 40 00 80     eth0\nnonsense\n";
        let found: Vec<IpAddr> = assigned(of_six).collect();
        assert_eq!(found, ["fd00::1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn this_process_has_a_loopback_address() {
        let host = Host::open(std::path::Path::new("/")).unwrap();
        let own = of_process(&host, std::process::id());
        // None in a namespace whose loopback is down.
        let loopback = |address: &IpAddr| address.is_loopback();
        assert!(own.is_empty() || own.iter().any(loopback), "{own:?}");
    }

    #[test]
    fn a_name_is_another_hosts_only_if_the_file_has_it_with_other_addresses() {
        let hosts = "127.0.0.1 localhost\n127.0.1.1 tray03 # as Debian has it\n\
                     10.0.0.1 Tray01.rack tray01\n10.0.0.2 tray02\nnonsense tray05\n";
        let names = Names {
            addresses: by_name(hosts),
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
