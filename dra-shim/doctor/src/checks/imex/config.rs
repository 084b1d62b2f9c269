//! The configuration of a daemon, and the list of nodes that it names.

use crate::facts::imex::config::{ConfigSource, ImexConfig, NodeList};
use crate::finding::{Finding, Severity};

/// Nodes are only missing from a configuration that was read.
pub(super) fn check(config: &ImexConfig, runs: bool) -> Option<Finding> {
    match config {
        ImexConfig::Unknown {
            subject,
            reason,
            quotes,
        } => Some(Finding {
            quotes: *quotes,
            ..unreadable(subject, reason)
        }),
        ImexConfig::Known { source, nodes } => check_nodes(source, nodes, runs),
    }
}

fn check_nodes(source: &ConfigSource, nodes: &NodeList, runs: bool) -> Option<Finding> {
    let (path, reason) = match nodes {
        NodeList::Present => return None,
        NodeList::WithoutHost(path) => return Some(own_address_missing(source, path, runs)),
        NodeList::Unreadable { path, reason } => {
            let evidence = format!("it cannot be read: {reason} ({})", describe(source));
            return Some(unreadable(path, &evidence));
        }
        NodeList::Empty(path) => (path, "it lists no node"),
        NodeList::Absent(path) => (path, "there is no such file"),
    };
    Some(Finding::error(
        "host-imex-no-nodes",
        path,
        format!("{reason}: the daemon has no domain ({})", describe(source)),
        format!(
            "write the addresses of the domain's nodes into {path}, one for each line, and restart nvidia-imex"
        ),
    ))
}

/// The daemon finds itself in the list by an address of its host, and ends if it
/// does not; one that runs has done so with an earlier list.
fn own_address_missing(source: &ConfigSource, path: &str, runs: bool) -> Finding {
    let (severity, then) = if runs {
        (Severity::Warning, "it will not start with this list again")
    } else {
        (Severity::Error, "it cannot start")
    };
    Finding::new(
        severity,
        "host-imex-own-address-missing",
        path,
        format!(
            "none of its nodes has an address of this node (names as in /etc/hosts), by which nvidia-imex finds itself: {then} ({})",
            describe(source)
        ),
        format!(
            "add this node's address to {path}, in the same line on all nodes of the domain, and restart nvidia-imex"
        ),
    )
}

/// Without the list it is not known whether the daemon has a domain.
fn unreadable(subject: &str, evidence: &str) -> Finding {
    Finding::warning(
        "host-imex-config-unreadable",
        subject,
        format!("{evidence}; which nodes nvidia-imex has is not known"),
        "run cdi-gen doctor as root on the host; if the file is not there, restore it, or start nvidia-imex with the right -c",
    )
}

/// Which file is meant, for evidence.
fn describe(source: &ConfigSource) -> String {
    let ConfigSource {
        path,
        named_by,
        seen_by,
    } = source;
    let named = match named_by {
        Some(by) => format!("configuration {path}, from {by}"),
        None => format!("configuration {path}, the usual one"),
    };
    match seen_by {
        Some(pid) => format!("{named}; files as process {pid} sees them"),
        None => named,
    }
}
