//! What `nvidia-imex-ctl -N -j` says of the node that it runs on.

use std::fmt;
use std::net::IpAddr;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// This node in its IMEX domain, as its own daemon measured it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImexNode {
    /// The node's key in the domain: its line of `nodes_config.cfg`, from 0.
    pub index: String,
    /// The address or name under which it is listed there.
    pub host: String,
    /// The version of its daemon; empty if it was not told.
    pub version: String,
    /// Its links, in the order they were told; never empty.
    pub connections: Vec<ImexConnection>,
}

/// A link from this node to one of the domain, itself included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImexConnection {
    /// The peer's key in the domain.
    pub index: String,
    /// The peer's address or name.
    pub host: String,
    /// Where the link stands.
    pub link: ImexLink,
}

/// Where a link between two daemons stands.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImexLink {
    /// `CONNECTED`
    Connected,
    /// `NEVER_CONNECTED`: not since this daemon started.
    NeverConnected,
    /// `RECOVERING`: it was connected; also what stays after the peer left.
    Recovering,
    /// `INVALID`
    Invalid,
    /// A word that this crate does not know.
    Unrecognised(String),
}

/// The parts of the tool's object that are evidence or name it. Members that
/// are not here, the status of nodes and of the domain among them, are rebuilt
/// from the configuration and not measured.
#[derive(Deserialize)]
struct Domain {
    nodes: Entries<Node>,
}

#[derive(Deserialize)]
pub(crate) struct Node {
    host: String,
    #[serde(default, rename = "hostName")]
    host_name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    connections: Entries<Connection>,
}

#[derive(Deserialize)]
struct Connection {
    #[serde(default)]
    host: String,
    status: String,
}

/// An object whose keys are line numbers, in the order told.
pub(crate) struct Entries<T>(Vec<(String, T)>);

/// The entries of a domain; which is the own one is still open.
pub(crate) type Nodes = Entries<Node>;

pub(crate) fn parse(json: &[u8]) -> Result<Nodes, serde_json::Error> {
    serde_json::from_slice::<Domain>(json).map(|domain| domain.nodes)
}

/// Why no entry tells of this node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// None goes by its names; these hosts are listed.
    NotListed(Vec<String>),
    /// This one does, and has no connections: nobody measured any, since a
    /// daemon tells of the link to itself, too.
    NotMeasured(String),
}

/// The entry of the node that goes by `names`: the first with connections, as
/// one node may be listed under several.
pub(crate) fn own(nodes: Nodes, names: &[&str]) -> Result<ImexNode, Unfit> {
    const SCREENFUL: usize = 16;
    let is_own = |node: &Node| {
        let mut both = [&node.host, &node.host_name].into_iter();
        both.any(|it| names.iter().any(|name| is_same(it, name)))
    };
    let hosts = nodes.0.iter().map(|(_, node)| node.host.clone());
    let mut unfit = Unfit::NotListed(hosts.take(SCREENFUL).collect());
    for (index, node) in nodes.0.into_iter().filter(|(_, node)| is_own(node)) {
        if !node.connections.0.is_empty() {
            return Ok(ImexNode::of(index, node));
        }
        unfit = Unfit::NotMeasured(node.host);
    }
    Err(unfit)
}

/// One address may be written in several ways, and names in either case.
fn is_same(one: &str, other: &str) -> bool {
    if one.is_empty() {
        return false;
    }
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one.to_canonical() == other.to_canonical(),
        _ => one.eq_ignore_ascii_case(other),
    }
}

// === impl ImexNode ===

impl ImexNode {
    fn of(index: String, node: Node) -> Self {
        let connections = node.connections.0.into_iter();
        Self {
            index,
            host: node.host,
            version: node.version,
            connections: connections
                .map(|(index, it)| ImexConnection {
                    index,
                    host: it.host,
                    link: it.status.into(),
                })
                .collect(),
        }
    }

    /// The links that do not stand, in the order they were told.
    pub fn broken(&self) -> impl Iterator<Item = &ImexConnection> {
        let connections = self.connections.iter();
        connections.filter(|it| it.link != ImexLink::Connected)
    }
}

// === impl ImexLink ===

impl From<String> for ImexLink {
    fn from(word: String) -> Self {
        match word.as_str() {
            "CONNECTED" => Self::Connected,
            "NEVER_CONNECTED" => Self::NeverConnected,
            "RECOVERING" => Self::Recovering,
            "INVALID" => Self::Invalid,
            _ => Self::Unrecognised(word),
        }
    }
}

/// The tool's own word.
impl fmt::Display for ImexLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connected => "CONNECTED",
            Self::NeverConnected => "NEVER_CONNECTED",
            Self::Recovering => "RECOVERING",
            Self::Invalid => "INVALID",
            Self::Unrecognised(word) => word,
        })
    }
}

// === impl Entries ===

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object by line number")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(InOrder(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A healthy node 1 of three, of which one has left. As on a real domain,
    /// the entries of the others say that they are down.
    const DOMAIN: &str = r#"{"nodes": {
        "0": {"status": "UNAVAILABLE", "host": "10.0.0.1", "hostName": "n1", "version": "", "changed": false,
              "connections": {"1": {"host": "10.0.0.2", "status": "INVALID", "changed": false}}},
        "1": {"status": "READY", "host": "10.0.0.2", "hostName": "N2.example", "version": "580.82.07", "changed": true,
              "connections": {"0": {"host": "10.0.0.1", "status": "CONNECTED", "changed": false},
                              "1": {"host": "10.0.0.2", "status": "CONNECTED", "changed": false},
                              "2": {"host": "10.0.0.3", "status": "RECOVERING", "changed": true}}},
        "2": {"status": "UNAVAILABLE", "host": "fd00:0::3",
              "connections": {"2": {"host": "fd00:0::3", "status": "INVALID"}}},
        "3": {"status": "READY", "host": "n4", "connections": {}}},
        "timestamp": "1/1/2026 00:00:00.000", "status": "DEGRADED"}"#;

    fn of(names: &[&str]) -> Result<ImexNode, Unfit> {
        own(parse(DOMAIN.as_bytes()).unwrap(), names)
    }

    #[test]
    fn only_the_own_links_are_told_whatever_the_others_entries_say() {
        let node = of(&["10.0.0.2"]).unwrap();
        assert_eq!((&*node.index, &*node.version), ("1", "580.82.07"));
        assert_eq!(node.connections.len(), 3);
        let broken: Vec<_> = node.broken().map(|it| (&*it.host, &it.link)).collect();
        assert_eq!(broken, [("10.0.0.3", &ImexLink::Recovering)]);
    }

    #[test]
    fn a_node_is_found_by_any_of_its_names_and_an_address_in_any_spelling() {
        for names in [
            &["n2.EXAMPLE"][..],
            &["other", "10.0.0.2"],
            &["::ffff:10.0.0.2"],
        ] {
            assert_eq!(of(names).unwrap().index, "1", "{names:?}");
        }
        assert_eq!(of(&["fd00::3"]).unwrap().index, "2");
        // A name that is empty on both sides is no name.
        let listed = ["10.0.0.1", "10.0.0.2", "fd00:0::3", "n4"].map(str::to_owned);
        assert_eq!(of(&[""]), Err(Unfit::NotListed(listed.into())));
    }

    #[test]
    fn an_entry_without_connections_does_not_pass_for_one_without_broken_ones() {
        assert_eq!(of(&["n4"]), Err(Unfit::NotMeasured("n4".to_owned())));
        assert_eq!(of(&["n4", "10.0.0.2"]).unwrap().index, "1");
    }

    #[test]
    fn every_word_of_a_link_survives_and_a_new_one_too() {
        for word in [
            "CONNECTED",
            "NEVER_CONNECTED",
            "RECOVERING",
            "INVALID",
            "NEW",
        ] {
            assert_eq!(ImexLink::from(word.to_owned()).to_string(), word);
        }
        assert_eq!(
            ImexLink::from("connected".to_owned()),
            ImexLink::Unrecognised("connected".to_owned())
        );
    }
}
