//! The node side of Kubernetes Dynamic Resource Allocation: registration, prepare, health, ResourceSlices.
