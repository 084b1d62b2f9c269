//! Tests of the plugin with an API server in memory.

pub(crate) mod api_server;
mod groups;
pub(crate) mod node;
pub(crate) mod requests;
mod simulation;
