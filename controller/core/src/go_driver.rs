//! Detects the Go driver's controller by its writes. It does the same work as this controller, and the two
//! would undo each other's changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

/// The field manager of all writes of the Go driver's controller: the name of its program. This controller
/// uses the same name for the status, but only with server-side apply.
pub(crate) const MANAGER: &str = "compute-domain-controller";

/// The operation of the Go driver's writes. This controller never uses it under that name.
pub(crate) const OPERATION: &str = "Update";

/// The time when the API server stored a write of the Go driver's controller. It is compared only with other
/// such times of the same object, never with a clock.
pub(crate) type WriteTime = Timestamp;

/// The last write of the Go driver's controller to an object; `None` if there is none.
pub(crate) fn last_write(metadata: &ObjectMeta) -> Option<WriteTime> {
    let entries = metadata.managed_fields.iter().flatten();
    let of_go = entries.filter(|entry| {
        entry.manager.as_deref() == Some(MANAGER) && entry.operation.as_deref() == Some(OPERATION)
    });
    of_go.filter_map(|entry| Some(entry.time.as_ref()?.0)).max()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mk_metadata(entries: &Value) -> ObjectMeta {
        serde_json::from_value(json!({ "managedFields": entries })).unwrap()
    }

    #[test]
    fn its_last_update_is_found_among_the_writes_of_others() {
        let metadata = mk_metadata(&json!([
            { "manager": "kubectl-create", "operation": "Update", "time": "2026-01-04T00:00:00Z" },
            { "manager": "compute-domain-controller", "operation": "Apply", "time": "2026-01-03T00:00:00Z" },
            { "manager": "compute-domain-controller", "operation": "Update", "time": "2026-01-01T00:00:00Z" },
            { "manager": "compute-domain-controller", "operation": "Update", "subresource": "status", "time": "2026-01-02T00:00:00Z" },
        ]));
        assert_eq!(
            last_write(&metadata),
            Some("2026-01-02T00:00:00Z".parse().unwrap())
        );
    }

    #[test]
    fn our_own_writes_are_not_its() {
        let metadata = mk_metadata(&json!([
            { "manager": "compute-domain-controller", "operation": "Apply", "time": "2026-01-03T00:00:00Z" },
            { "manager": "imex-dra", "operation": "Update", "time": "2026-01-03T00:00:00Z" },
        ]));
        assert_eq!(last_write(&metadata), None);
        assert_eq!(last_write(&ObjectMeta::default()), None);
    }
}
