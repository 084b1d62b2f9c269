//! The whole loop against an in-memory API server.

mod channels;
mod chaos;
mod claims;
mod cliques;
mod deletions;
mod faults;
mod late_writes;
mod leaders;
mod leftovers;
mod life;
mod load;
mod names;
mod nodes;
mod orphans;
mod outages;
mod refused;
mod repairs;
mod schema;
mod second_controller;
mod stories;
mod turns;
mod waiting;
mod watches;
