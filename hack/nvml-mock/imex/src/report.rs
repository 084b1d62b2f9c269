//! A daemon's view of the domain, as `nvidia-imex-ctl -N -j` prints it.

use std::time::SystemTime;

use crate::clock::stamp;
use crate::domain::{Domain, Link};

/// A JSON object: the nodes that have a name, each with the connections that this daemon knows.
///
/// Only the daemon's own row is complete. Of other nodes, it knows only its connection to them.
pub fn json(domain: &Domain, state: &str) -> String {
    let links = domain.links();
    let rows: Vec<_> = (0..links.len())
        .map(|index| row(domain, &links, index, state))
        .collect();
    let others = links.iter().enumerate().filter(|(i, _)| *i != domain.own);
    let all_connected = others.clone().all(|(_, link)| link.status == "CONNECTED");
    let status = match (state, all_connected) {
        ("READY", true) => "UP",
        ("READY", false) => "DEGRADED",
        _ => "DOWN",
    };
    let now = stamp(SystemTime::now());
    format!(
        r#"{{"nodes": {{{}}}, "timestamp": "{now}", "status": "{status}"}}"#,
        rows.join(", ")
    )
}

fn row(domain: &Domain, links: &[Link], index: usize, state: &str) -> String {
    let is_own = index == domain.own;
    let link = links.get(index);
    let status = match (is_own, link.map(|link| link.status)) {
        (true, _) => state,
        (false, Some("CONNECTED")) => "READY",
        _ => "UNAVAILABLE",
    };
    let connections: Vec<_> = links
        .iter()
        .enumerate()
        .filter(|(other, _)| is_own && *other != index)
        .map(|(other, link)| {
            let host = link.address.map(|it| it.to_string()).unwrap_or_default();
            let (status, changed) = (link.status, stamp(link.changed));
            format!(
                r#""{other}": {{"host": "{host}", "status": "{status}", "changed": "{changed}"}}"#
            )
        })
        .collect();
    let address = if is_own {
        Some(domain.address)
    } else {
        link.and_then(|link| link.address)
    };
    let host = address.map(|it| it.to_string()).unwrap_or_default();
    let name = domain.nodes.names().get(index).map_or("", String::as_str);
    let changed = link.map(|link| stamp(link.changed)).unwrap_or_default();
    format!(
        r#""{index}": {{"status": "{status}", "host": "{host}", "hostName": "{name}", "version": "MOCK", "changed": "{changed}", "connections": {{{}}}}}"#,
        connections.join(", ")
    )
}
