//! Tests of the plugin with an API server in memory.

pub(crate) mod api_server;
mod call_observer;
mod claim_lookup;
mod groups;
pub(crate) mod node;
mod reconciler;
pub(crate) mod requests;
mod simulation;
mod spec_keeper;
