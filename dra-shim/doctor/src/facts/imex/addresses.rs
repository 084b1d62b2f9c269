//! The addresses that a daemon has for its own, by which it finds itself in the
//! list of nodes: `proc_pid_net(5)`.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use crate::files::HostFiles;
use crate::processes::all_are_seen;

/// Those of the host, as its first process has them; empty where they are not known: the
/// first that a container shows may be its own.
pub(super) fn of_host(files: &HostFiles) -> BTreeSet<IpAddr> {
    if !all_are_seen(files) {
        return BTreeSet::new();
    }
    let own = of_process(files, 1);
    if own.is_empty() && files.has_own_net() {
        return in_directory(files, "/proc/net");
    }
    own
}

/// Those of a process's network namespace; empty where they are not known.
pub(super) fn of_process(files: &HostFiles, pid: u32) -> BTreeSet<IpAddr> {
    in_directory(files, &format!("/proc/{pid}/net"))
}

fn in_directory(files: &HostFiles, dir: &str) -> BTreeSet<IpAddr> {
    let text = |name: &str| files.text_if_readable(&format!("{dir}/{name}"));
    let v4 = text("fib_trie").unwrap_or_default();
    let v6 = text("if_inet6").unwrap_or_default();
    local(&v4).chain(assigned(&v6)).collect()
}

/// Leaves of the kernel's routing trie: `|-- 10.0.0.1`, and in the lines below
/// what it is routed to. Its own addresses are `/32 host LOCAL`.
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

/// `fe800000000000000000000000000001 02 40 20 80 eth0`.
fn assigned(if_inet6: &str) -> impl Iterator<Item = IpAddr> {
    let addresses = if_inet6
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    addresses.filter_map(|hex| {
        let bits = u128::from_str_radix(hex, 16).ok()?;
        Some(Ipv6Addr::from(bits).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_local_is_an_address_of_the_host() {
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
        let root = crate::root::Root::new(std::path::Path::new("/")).unwrap();
        let own = of_process(&HostFiles::new(root), std::process::id());
        // None in a namespace whose loopback is down.
        let loopback = |address: &IpAddr| address.is_loopback();
        assert!(own.is_empty() || own.iter().any(loopback), "{own:?}");
    }
}
