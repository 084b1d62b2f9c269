//! Nodes, daemons, an API server and the controller in one thread, in a random order: nodes come, go, are
//! replaced and change their clique, kubelets wipe slices, pods are deleted gracefully or by force,
//! requests and answers are lost, and the controller starts again with nothing but the objects, which somebody may
//! have edited or deleted just before.
//!
//! Daemons are updated while claims come and go, of which the controller hears late.
//!
//! No daemon is replaced whose node has a prepared claim. After every step no two daemons that run have one index in one clique, no index of a node that lives
//! in a clique changes, and when the disorder ends, everything is as it has to be and nothing is written.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends where its expectation fails"
)]

mod controller;
mod server;
mod world;

use std::time::Duration;

use world::World;

/// How many seeds: a few seconds.
const RUNS: u64 = 200;

/// How many random steps each.
const STEPS: usize = 400;

// req: DM-2, DM-3, DM-4
#[test]
fn indices_are_unique_and_stay_in_any_order_of_events_and_everything_converges() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..RUNS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.disturb();
            world.check();
        }
        world.settle();
        for _ in 0..400 {
            world.pass(Duration::from_secs(20));
            world.check();
        }
        world.check_settled();
        let writes = world.writes();
        for _ in 0..100 {
            world.pass(Duration::from_secs(60));
        }
        assert_eq!(world.writes(), writes, "seed {seed}: written without need");
    }
}
