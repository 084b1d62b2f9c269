//! Tests of `compute-domain-controller` as a process against the real API server: it is killed, paused
//! and disconnected, its requests are refused, and it meets objects of others.
//!
//! `hack/e2e.sh controller` runs this program inside the control plane's namespaces. Only the CRD is
//! installed, no chart. A controller acts on the whole cluster, so one test runs at a time, each in its
//! own namespaces. At its end, a test deletes its domains and checks that no objects of the controller
//! are left; `hack/e2e.sh` then waits until the namespaces are deleted.
//!
//! `CONTROLLER_PROGRAM` (an absolute path) overrides the program under test.
#![cfg(test)]

mod channels;
mod claims;
mod cliques;
mod coming_and_going;
mod edited;
mod election;
mod hostile;
mod leftovers;
mod namespaces;
mod older_crd;
mod orphans;
mod outages;
mod refusals;
mod repairs;
mod support;
mod templates;
