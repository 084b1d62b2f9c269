use kube::core::Status;

/// Whether a request was refused because its namespace is terminating, so that no object can be created
/// in it. The API server responds 403, like for a missing permission; only this cause tells them apart.
pub fn is_namespace_terminating(status: &Status) -> bool {
    let details = status.details.as_ref();
    let mut causes = details.into_iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}
