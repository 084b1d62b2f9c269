//! A request to the API server in memory, and its possible answers.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;

use bytes::Bytes;
use http::{Method, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// Objects by namespace and name.
pub(super) type Objects = BTreeMap<(String, String), Value>;

/// A request.
pub(super) struct RecordedRequest {
    pub(super) verb: &'static str,
    pub(super) kind: String,
    namespace: Option<String>,
    name: String,
    query: String,
}

impl RecordedRequest {
    pub(super) fn parse(method: &Method, path: &str, query: &str) -> Self {
        let mut parts = path
            .split('/')
            .skip_while(|part| !part.starts_with('v'))
            .skip(1);
        let mut kind = parts.next().unwrap_or_default();
        let mut namespace = None;
        if kind == "namespaces" {
            namespace = parts.next().map(str::to_owned);
            kind = parts.next().unwrap();
        }
        let name = parts.next().unwrap_or_default().to_owned();
        let subresource = parts.next().map(|part| format!("/{part}"));
        assert_eq!(parts.next(), None, "{path}");
        let verb = match (method, name.is_empty()) {
            (&Method::GET, false) => "get",
            (&Method::GET, true) if query.contains("watch=true") => "watch",
            (&Method::GET, true) => "list",
            (&Method::POST, _) => "create",
            (&Method::PATCH, _) => "patch",
            _ => panic!("unexpected {method} {path}"),
        };
        Self {
            verb,
            kind: kind.to_owned() + &subresource.unwrap_or_default(),
            namespace,
            name,
            query: query.to_owned(),
        }
    }

    pub(super) fn query(&self, key: &str) -> Option<&str> {
        let mut pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs.find(|pair| pair.0 == key).map(|pair| pair.1)
    }

    pub(super) fn key(&self) -> (String, String) {
        (self.namespace.clone().unwrap(), self.name.clone())
    }

    pub(super) fn pick(&self, objects: &Objects) -> Answer {
        if let Some(object) = objects.get(&self.key()) {
            return ok(object);
        }
        let group = if self.kind == "computedomains" {
            "resource.nvidia.com"
        } else {
            "resource.k8s.io"
        };
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("{}.{group} \"{}\" not found", self.kind, self.name),
            "reason": "NotFound", "code": 404,
            "details": {"name": self.name, "group": group, "kind": self.kind},
        });
        plain(404, status.to_string())
    }

    /// One page of a list. Panics if the list has no limit.
    pub(super) fn page(&self, objects: &Objects, expired: &mut u32) -> Answer {
        let limit: usize = self.query("limit").expect("a paged list").parse().unwrap();
        let after = self.query("continue").map(|token| {
            let (namespace, name) = token.split_once('.').unwrap();
            (namespace.to_owned(), name.to_owned())
        });
        if after.is_some() && *expired > 0 {
            *expired -= 1;
            return plain(
                410,
                r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410,
                "message":"The provided continue parameter is too old"}"#
                    .to_owned(),
            );
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let in_namespace = |key: &(String, String)| {
            self.namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == key.0)
        };
        let mut left = objects
            .range((from, Bound::Unbounded))
            .filter(|(key, _)| in_namespace(key));
        let page: Vec<_> = left.by_ref().take(limit).collect();
        let token = left
            .next()
            .and_then(|_| page.last())
            .map(|(key, _)| format!("{}.{}", key.0, key.1));
        let items: Vec<_> = page.into_iter().map(|(_, object)| object).collect();
        ok(&json!({"metadata": {"resourceVersion": "1", "continue": token}, "items": items}))
    }
}

pub(super) fn ok(object: &Value) -> Answer {
    plain(200, object.to_string())
}

pub(super) fn plain(code: u16, body: String) -> Answer {
    let body = Full::from(body).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = code.try_into().unwrap();
    answer
}
