//! The controller's decisions: which objects and status a ComputeDomain should have.
