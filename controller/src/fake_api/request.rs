//! Parsed requests.

use std::collections::HashMap;

use http::Method;
use http::request::Parts;
use serde_json::Value;

use super::resource::Resource;

/// The parts of a request that the server needs.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) resource: Resource,
    /// Empty for all namespaces.
    pub(super) namespace: String,
    /// Empty for a collection.
    pub(super) name: String,
    pub(super) subresource: String,
    query: HashMap<String, String>,
    /// Whether only the metadata of objects is wanted.
    pub(super) metadata_only: bool,
    /// Null without one.
    pub(super) body: Value,
}

impl Request {
    /// `None` for a resource that this server does not have.
    pub(super) fn read(parts: &Parts, body: &[u8]) -> Option<Self> {
        let path: Vec<&str> = parts
            .uri
            .path()
            .trim_start_matches('/')
            .split('/')
            .collect();
        let (api_version, rest) = match path.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, rest) = rest.split_first()?;
        let accept = parts.headers.get("accept");
        let accept = accept
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let at = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        Some(Self {
            method: parts.method.clone(),
            resource: Resource::find(&api_version, plural)?,
            namespace: namespace.to_owned(),
            name: at(0),
            subresource: at(1),
            query: read_query(parts.uri.query().unwrap_or_default()),
            metadata_only: accept.contains("as=PartialObjectMetadata"),
            body: serde_json::from_slice(body).unwrap_or_default(),
        })
    }

    /// A parameter of the query; empty if missing.
    pub(super) fn query(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn is_watch(&self) -> bool {
        self.query("watch") == "true"
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.query("dryRun") == "All"
    }

    /// The name of the object in the body.
    pub(super) fn name_in_body(&self) -> &str {
        self.body["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The field manager.
    pub(super) fn manager(&self) -> &str {
        self.query("fieldManager")
    }
}

fn read_query(query: &str) -> HashMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

/// Decodes form encoding.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap();
                u8::from_str_radix(digits, 16).unwrap()
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}
