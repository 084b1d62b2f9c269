//! `compute-domain-controller` as a process against the real API server: what must be true although
//! it is killed, paused, cut off or refused, or meets objects of others.
//!
//! Run by `hack/e2e.sh controller`, which runs this program inside the control plane's namespaces.
//! Only the CRD is installed, no chart. A controller acts on the whole cluster, so one test runs at a
//! time; each has namespaces of its own. A test ends by deleting its domains and looking for
//! what is left of ours; `hack/e2e.sh` then waits until the namespaces are gone.
//!
//! `CONTROLLER_PROGRAM` (an absolute path) is the program instead of the one that was built.
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
