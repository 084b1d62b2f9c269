//! The configuration of an nvidia-imex, and the nodes that it lists.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use super::addresses::{self, Names};
use super::daemons::{PROGRAM, RunningDaemon};
use super::unit::{self, UNIT};
use crate::host::Host;
use crate::processes::config_option;

/// The daemon's defaults.
const DEFAULT_CONFIG: &str = "/etc/nvidia-imex/config.cfg";
const DEFAULT_NODES: &str = "/etc/nvidia-imex/nodes_config.cfg";

/// The setting that names the node list.
const NODES_KEY: &str = "IMEX_NODE_CONFIG_FILE";

/// The configuration of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImexConfig {
    /// The file is unknown.
    Unknown {
        /// The command line in `/proc`, or the unit file, that does not show it.
        subject: String,
        /// Why it is unknown.
        reason: String,
        /// Whether the reason quotes a file.
        quotes: bool,
    },
    /// The file is known.
    Known {
        /// The file.
        source: ConfigSource,
        /// The node list that it names.
        nodes: NodeList,
    },
}

/// A configuration file, and where its path comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSource {
    /// Its path, as the daemon sees it.
    pub path: String,
    /// The process or unit that names it; `None` if it is the daemon's default.
    pub named_by: Option<String>,
    /// The process that sees it at this path, if the host may have another file there;
    /// `None` for a file of the host.
    pub seen_by: Option<u32>,
}

/// The nodes of the daemon's domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeList {
    /// It has at least one node.
    Present,
    /// The file at this path has nodes, but none of them is an address of the daemon's host.
    /// Not used if it has a name that is missing in the host's `/etc/hosts`.
    WithoutHost(String),
    /// The file at this path has no nodes.
    Empty(String),
    /// There is no file at this path.
    Absent(String),
    /// The configuration or the list cannot be read.
    Unreadable {
        /// The file.
        path: String,
        /// Why it cannot be read.
        reason: String,
    },
}

// === impl ImexConfig ===

impl ImexConfig {
    /// The configuration of a running daemon. Its files are those of `host` if it sees the
    /// host's files.
    pub(super) fn read_for_daemon(host: &Host, daemon: &RunningDaemon) -> Self {
        let pid = daemon.facts.pid;
        let arguments = match &daemon.arguments {
            Ok(arguments) => arguments,
            Err(error) => {
                return Self::Unknown {
                    subject: format!("/proc/{pid}/cmdline"),
                    reason: format!("the command line of process {pid} cannot be read: {error}"),
                    quotes: false,
                };
            }
        };
        let seen_by = (!daemon.sees_host).then_some(pid);
        let source = ConfigSource::new(arguments, format!("process {pid}"), seen_by);
        let mut own = addresses::of_process(host, pid);
        if own.is_empty() && daemon.sees_host && !daemon.facts.is_in_container() {
            own = addresses::of_host(host);
        }
        let host = Some(host).filter(|_| daemon.sees_host);
        Self::read(source, daemon.files.as_ref().or(host), &own)
    }

    /// The configuration that a unit's daemon would have if it started now.
    pub(super) fn read_for_unit(host: &Host, unit: &str) -> Self {
        let command = unit::exec_start(host, unit);
        let arguments = command.split_whitespace();
        let arguments: Vec<String> = arguments
            .map(|it| it.trim_matches(['"', '\'']).to_owned())
            .collect();
        let program = arguments.first().map(Path::new).and_then(Path::file_name);
        if program.is_some_and(|name| name != PROGRAM) {
            return Self::Unknown {
                subject: unit.to_owned(),
                reason: format!("its ExecStart does not run {PROGRAM}: {command}"),
                quotes: true,
            };
        }
        let source = ConfigSource::new(&arguments, format!("ExecStart of {UNIT}"), None);
        let own = addresses::of_host(host);
        Self::read(source, Some(host), &own)
    }

    /// Reads it from the files that the daemon sees, `None` if they cannot be examined.
    fn read(source: ConfigSource, files: Option<&Host>, own: &BTreeSet<IpAddr>) -> Self {
        let nodes = match files {
            Some(files) => NodeList::read(files, &source, own),
            None => NodeList::unreadable(&source.path, "it is in a container"),
        };
        Self::Known { source, nodes }
    }
}

// === impl ConfigSource ===

impl ConfigSource {
    fn new(arguments: &[String], named_by: String, seen_by: Option<u32>) -> Self {
        let option = config_option(arguments);
        Self {
            path: option.unwrap_or(DEFAULT_CONFIG).to_owned(),
            named_by: option.map(|_| named_by),
            seen_by,
        }
    }
}

// === impl NodeList ===

impl NodeList {
    /// `own`: the addresses of the daemon's host, empty if unknown.
    fn read(files: &Host, source: &ConfigSource, own: &BTreeSet<IpAddr>) -> Self {
        let config = match text(files, &source.path) {
            Ok(Some(text)) => text,
            Ok(None) if source.named_by.is_none() => String::new(),
            Ok(None) => return Self::unreadable(&source.path, "the file does not exist"),
            Err(error) => return Self::unreadable(&source.path, &error.to_string()),
        };
        let path = nodes_file(&config).unwrap_or(DEFAULT_NODES);
        match text(files, path) {
            Err(error) => Self::unreadable(path, &error.to_string()),
            Ok(Some(text)) => {
                let nodes: Vec<&str> = text.lines().map(str::trim).filter(is_node).collect();
                // A container's hosts file may change at any time.
                let names = Some(files).filter(|_| source.seen_by.is_none());
                let names = names.map(Names::read).unwrap_or_default();
                match nodes.as_slice() {
                    [] => Self::Empty(path.to_owned()),
                    nodes if may_have(nodes, own, &names) => Self::Present,
                    _ => Self::WithoutHost(path.to_owned()),
                }
            }
            Ok(None) => Self::Absent(path.to_owned()),
        }
    }

    fn unreadable(path: &str, reason: &str) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// The text of a file at the daemon's path for it; `None` if it does not exist.
fn text(files: &Host, path: &str) -> io::Result<Option<String>> {
    if !path.starts_with('/') || path.contains(['$', '%']) {
        let reason = "the path depends on how the daemon is started";
        return Err(io::Error::other(reason));
    }
    files.read_text(path)
}

/// The node list's path in the configuration, if set.
fn nodes_file(config: &str) -> Option<&str> {
    let mut pairs = config.lines().filter_map(|line| line.split_once('='));
    let (_, path) = pairs.find(|(key, _)| key.trim() == NODES_KEY)?;
    Some(path.trim()).filter(|path| !path.is_empty())
}

/// Whether a line is a node: an address or a host name.
fn is_node(line: &&str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

/// Whether one of the nodes is, or may be, the host itself.
fn may_have(nodes: &[&str], own: &BTreeSet<IpAddr>, names: &Names) -> bool {
    let may_be = |node: &&str| match node.parse() {
        Ok(address) => own.contains(&address),
        Err(_) => names.may_be(node, own),
    };
    own.is_empty() || nodes.iter().any(may_be)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_lacks_the_host_only_if_every_node_is_another_hosts_address() {
        let own = BTreeSet::from(["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()]);
        let may_have = |nodes: &[&str], own| may_have(nodes, own, &Names::default());
        assert!(may_have(&["10.0.0.2", "10.0.0.1"], &own));
        assert!(may_have(&["fd00:0:0::1"], &own));
        assert!(may_have(&["10.0.0.2", "node-b"], &own));
        assert!(!may_have(&["10.0.0.2", "fd00::2"], &own));
        assert!(may_have(&["10.0.0.2"], &BTreeSet::new()));
    }

    #[test]
    fn a_line_of_the_list_is_a_node_unless_it_is_empty_or_a_comment() {
        assert!(is_node(&"10.0.0.1"));
        assert!(!is_node(&""));
        assert!(!is_node(&"# 10.0.0.1"));
        assert_eq!(nodes_file("A=1\nIMEX_NODE_CONFIG_FILE = /n\n"), Some("/n"));
        assert_eq!(nodes_file("#IMEX_NODE_CONFIG_FILE=/n\n"), None);
        assert_eq!(nodes_file("IMEX_NODE_CONFIG_FILE=\n"), None);
    }
}
