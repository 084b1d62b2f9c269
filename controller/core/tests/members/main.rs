//! Nodes, daemons, an API server and the controller in one thread, in a random order: nodes come, go, are
//! replaced and change their clique, kubelets wipe slices, pods are deleted gracefully or by force,
//! requests and responses are lost, and the controller restarts with only the objects, which may have been edited or
//! deleted just before. Daemons are updated while claims come and go, and the controller sees the claims late.
//!
//! No daemon on a node with a prepared claim is replaced. After every step, no two running daemons have the same index
//! in a clique, and no index of a live node changes. When the disorder ends, everything converges and nothing is
//! written any more.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends where its expectation fails"
)]

mod controller;
mod server;
mod world;

use std::time::Duration;

use world::Simulation;

/// The number of seeds: a few seconds.
const RUNS: u64 = 200;

/// The number of random steps of each.
const STEPS: usize = 400;

// req: DM-2, DM-3, DM-4
#[test]
fn indices_are_unique_and_stable_and_everything_converges_in_any_order_of_events() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(0..RUNS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let mut world = Simulation::new(seed);
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
