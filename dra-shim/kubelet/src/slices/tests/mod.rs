//! Properties of whole publishers, against a model of the API server and the scheduler.

pub(super) mod api;
mod deletions;
mod ending_watches;
mod restarts;
mod rolling_update;
