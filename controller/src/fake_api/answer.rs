//! Responses of the server.

use http::StatusCode;
use serde_json::{Value, json};

use super::resource::Resource;

/// A response, except that of a watch.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) code: StatusCode,
    pub(super) body: Value,
    /// Whether the client should retry after a second.
    pub(super) retry_after: bool,
}

impl Answer {
    pub(super) fn ok(body: Value) -> Self {
        Self {
            code: StatusCode::OK,
            body,
            retry_after: false,
        }
    }

    /// A Kubernetes `Status`.
    pub(super) fn failure(code: u16, reason: &str, message: &str) -> Self {
        Self {
            code: StatusCode::from_u16(code).unwrap(),
            body: json!({
                "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
                "code": code, "reason": reason, "message": message,
            }),
            retry_after: false,
        }
    }

    pub(super) fn with_retry_after(self) -> Self {
        Self {
            retry_after: true,
            ..self
        }
    }

    pub(super) fn not_found(resource: Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.plural());
        Self::failure(404, "NotFound", &message)
    }

    pub(super) fn already_exists(resource: Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.plural());
        Self::failure(409, "AlreadyExists", &message)
    }

    pub(super) fn conflict(resource: Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            resource.plural()
        );
        Self::failure(409, "Conflict", &message)
    }

    /// For a patch that cannot be applied, or that leads to an invalid object.
    pub(super) fn invalid(why: &str) -> Self {
        Self::failure(422, "Invalid", why)
    }

    pub(super) fn expired() -> Self {
        Self::failure(410, "Expired", "too old resource version")
    }

    pub(super) fn terminating(resource: Resource, name: &str, namespace: &str) -> Self {
        let because = format!("namespace {namespace} is being terminated");
        let message = format!(
            "{} {name:?} is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            resource.plural()
        );
        let mut answer = Self::failure(403, "Forbidden", &message);
        answer.body["details"] = json!({
            "name": name, "kind": resource.plural(),
            "causes": [{ "reason": "NamespaceTerminating", "message": because, "field": "metadata.namespace" }],
        });
        answer
    }
}
