//! The node list and the resolution of its names.

use std::env;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

/// The lines of the node list when the daemon started: it never reads it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeList(Vec<String>);

/// A hosts file, read again for each name, as by a resolver.
#[derive(Debug, Clone)]
pub struct Hosts(PathBuf);

// === impl NodeList ===

impl NodeList {
    /// Reads a node list.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Ok(Self(lines.map(str::to_owned).collect()))
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// A hash of the list: daemons with different lists refuse each other.
    pub fn fingerprint(&self) -> u64 {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let bytes = self.0.iter().flat_map(|name| name.bytes().chain([b'\n']));
        bytes.fold(0xcbf2_9ce4_8422_2325, hash)
    }

    /// The first line with a name that resolves to one of these addresses.
    pub fn index_of(&self, hosts: &Hosts, local: &LocalAddresses) -> Option<usize> {
        self.0.iter().position(|name| {
            hosts
                .resolve(name)
                .is_some_and(|address| local.contain(address))
        })
    }
}

// === impl Hosts ===

impl Hosts {
    /// The file in `IMEX_MOCK_HOSTS`, or `/etc/hosts`.
    pub fn from_env() -> Self {
        Self(env::var_os("IMEX_MOCK_HOSTS").map_or_else(|| "/etc/hosts".into(), PathBuf::from))
    }

    /// The address of a name: itself if it is an address, or the first in the file.
    pub fn resolve(&self, name: &str) -> Option<IpAddr> {
        if let Ok(address) = name.parse() {
            return Some(address);
        }
        let text = fs::read_to_string(&self.0).ok()?;
        text.lines().find_map(|line| {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words.any(|word| word == name).then_some(address)
        })
    }
}

/// This machine's addresses.
#[derive(Debug)]
pub struct LocalAddresses {
    only: Option<IpAddr>,
}

impl LocalAddresses {
    /// The address in `BIND_INTERFACE_IP`, or the one in `IMEX_MOCK_ADDRESS`, which distinguishes daemons
    /// on one loopback interface; otherwise those of the machine's interfaces.
    pub fn new(bind_interface: Option<&str>) -> Self {
        let named = env::var("IMEX_MOCK_ADDRESS").ok();
        let only = bind_interface.or(named.as_deref());
        Self {
            only: only.and_then(|it| it.parse().ok()),
        }
    }

    /// An interface has an address if it can be bound. Exception: the kernel binds all of 127.0.0.0/8,
    /// although an interface has only one of them.
    fn contain(&self, address: IpAddr) -> bool {
        match self.only {
            Some(only) => only == address,
            None if address.is_loopback() && address != Ipv4Addr::LOCALHOST => false,
            None => TcpListener::bind((address, 0)).is_ok(),
        }
    }
}
