//! A user's requests in the API server's audit log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

const DRY_RUN: &str = "dry-run ";

/// The API server's audit log. Each line is read once.
pub(crate) struct AuditLog {
    file: BufReader<File>,
    /// The beginning of a line that is not written completely yet.
    line: Vec<u8>,
}

/// The requests and the refusals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests {
    counts: BTreeMap<Request, u64>,
    /// By HTTP status, from 400 on.
    refused: BTreeMap<u16, u64>,
}

/// The kind of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    /// The resource, with its subresource; for other requests, the path.
    pub(crate) resource: String,
    /// Preceded by `dry-run` if nothing is stored.
    pub(crate) verb: String,
}

/// The fields of a line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    path: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct ObjectRef {
    resource: Option<String>,
    subresource: Option<String>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

// === impl AuditLog ===

impl AuditLog {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| {
            let hint = "start the cluster with IMEX_CLUSTER_AUDIT, as hack/bench.sh does";
            format!("cannot read {}: {hint}", path.display())
        })?;
        let line = Vec::new();
        let file = BufReader::new(file);
        Ok(Self { file, line })
    }

    /// The user's requests since the last call. The server writes a line before its response
    /// ends.
    pub(crate) fn read(&mut self, user: &str) -> anyhow::Result<Requests> {
        let mut requests = Requests::default();
        while self.file.read_until(b'\n', &mut self.line)? > 0 {
            if self.line.last() != Some(&b'\n') {
                break;
            }
            let record: Record = serde_json::from_slice(&self.line)
                .context("cannot parse a line of the audit log")?;
            self.line.clear();
            if record.user.username == user {
                requests.add(record);
            }
        }
        Ok(requests)
    }
}

// === impl Requests ===

impl Requests {
    fn add(&mut self, record: Record) {
        // A watch counts when it begins, other requests when they end.
        let counted = if record.verb == "watch" {
            "ResponseStarted"
        } else {
            "ResponseComplete"
        };
        if record.stage != counted {
            return;
        }
        let code = record.response_status.and_then(|status| status.code);
        if let Some(code) = code.filter(|code| *code >= 400) {
            *self.refused.entry(code).or_default() += 1;
        }
        let resource = match record.object_ref {
            Some(ObjectRef {
                resource: Some(resource),
                subresource: Some(subresource),
            }) => format!("{resource}/{subresource}"),
            Some(ObjectRef {
                resource: Some(resource),
                ..
            }) => resource,
            _ => record.path.split('?').next().unwrap_or_default().to_owned(),
        };
        let verb = if record.path.contains("dryRun=All") {
            format!("{DRY_RUN}{}", record.verb)
        } else {
            record.verb
        };
        *self.counts.entry(Request { resource, verb }).or_default() += 1;
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        for (request, count) in &other.counts {
            *self.counts.entry(request.clone()).or_default() += count;
        }
        for (code, count) in &other.refused {
            *self.refused.entry(*code).or_default() += count;
        }
    }

    /// The number of matching requests.
    fn count(&self, matches: impl Fn(&Request) -> bool) -> u64 {
        let counts = self.counts.iter();
        let matching = counts.filter(|(request, _)| matches(request));
        matching.map(|(_, count)| count).sum()
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (&Request, u64)> {
        self.counts.iter().map(|(request, count)| (request, *count))
    }

    pub(crate) fn of(&self, request: &Request) -> u64 {
        self.counts.get(request).copied().unwrap_or_default()
    }

    /// The number of writes, without events and the lease.
    pub(crate) fn writes(&self) -> u64 {
        self.count(|request| request.is_write() && !request.is_event_or_lease())
    }

    pub(crate) fn lists(&self) -> u64 {
        self.count(|request| request.verb == "list")
    }

    /// The number of requests other than watches and the lease's.
    pub(crate) fn requests_without_watches(&self) -> u64 {
        self.count(|request| request.verb != "watch" && request.resource != "leases")
    }

    /// The number of requests other than the lease's.
    pub(crate) fn requests_without_lease(&self) -> u64 {
        self.count(|request| request.resource != "leases")
    }

    /// The number of watches of the resource.
    pub(crate) fn watches_of(&self, resource: &str) -> u64 {
        self.count(|request| request.verb == "watch" && request.resource == resource)
    }

    /// The number of conflicts (409).
    pub(crate) fn conflicts(&self) -> u64 {
        self.refused.get(&409).copied().unwrap_or_default()
    }

    /// Other refusals, such as `404: 12`; empty if there are none.
    pub(crate) fn other_refusals(&self) -> String {
        let others = self.refused.iter().filter(|(code, _)| **code != 409);
        let texts: Vec<String> = others.map(|(code, n)| format!("{code}: {n}")).collect();
        texts.join(", ")
    }
}

// === impl Request ===

impl Request {
    fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch") && !self.verb.starts_with(DRY_RUN)
    }

    fn is_event_or_lease(&self) -> bool {
        matches!(self.resource.as_str(), "events" | "leases")
    }
}

#[cfg(test)]
mod tests;
