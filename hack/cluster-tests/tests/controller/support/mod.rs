//! Shared code of the tests: the API server, each test's namespaces and controllers, and checks of
//! domains and templates.

mod channels;
mod controller;
mod crd;
mod domains;
mod events;
mod fixture;
mod kubeconfig;
mod kubectl;
mod lease;
mod leftovers;
mod objects;
mod proxy;
mod snapshot;
mod templates;

pub(crate) use channels::{Channels, channel};
pub(crate) use cluster_tests::{Component, output_of, seconds, throughout, until, within};
pub(crate) use controller::{Controller, Setup};
pub(crate) use crd::{GO_CRD, OUR_CRD, apply_crd, delete_crd};
pub(crate) use domains::{domain, named, ready_condition, reason, state};
pub(crate) use fixture::{Fixture, run, run_for};
pub(crate) use kubeconfig::{through_proxy, with_token};
pub(crate) use kubectl::{Applied, kubectl};
pub(crate) use lease::{LEASE, RETRY};
pub(crate) use proxy::Proxy;
pub(crate) use snapshot::Snapshot;
pub(crate) use templates::template;

/// Label with a domain's UID; the finalizer of domains and templates has the same name.
pub(crate) const LABEL: &str = "resource.nvidia.com/computeDomain";
pub(crate) const FINALIZER: &str = LABEL;

/// Label of a template's purpose, `Workload` or `Daemon`.
pub(crate) const TARGET_LABEL: &str = "resource.nvidia.com/computeDomainTarget";

/// A foreign finalizer.
pub(crate) const FOREIGN_FINALIZER: &str = "example.com/keep";
