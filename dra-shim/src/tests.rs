//! The plugin beside an API server in memory.

pub(crate) mod api_server;
pub(crate) mod node;
mod requests;
mod simulation;
