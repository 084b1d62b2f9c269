use kube::core::Status;

/// Whether a request was refused because its namespace is being deleted: nothing can be created in it
/// any more. The API server answers 403, as if a permission were missing, and only this cause tells.
pub fn is_namespace_terminating(status: &Status) -> bool {
    let details = status.details.as_ref();
    let mut causes = details.into_iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}
