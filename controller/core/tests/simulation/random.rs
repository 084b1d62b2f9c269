//! Thousands of orders of events.

use std::thread;

use compute_domain_core::StatusSchema;

use crate::controller::Fault;
use crate::world::{OLD, World};

/// How many orders are tried, unless [`SEEDS_VARIABLE`] has another number.
const SEEDS: u64 = 2_000;

const SEEDS_VARIABLE: &str = "SIMULATION_SEEDS";

/// How much happens in each before everything comes to rest.
const DISTURBED_STEPS: usize = 150;

/// One order of events. Returns what is wrong in the end.
fn run(seed: u64, fault: Fault) -> Result<(), String> {
    let schema = match seed % 5 {
        0 => OLD,
        _ => StatusSchema::FULL,
    };
    let mut world = World::new(seed, schema, fault);
    let ended = disturb_and_settle(&mut world);
    ended.map_err(|what| format!("seed {seed}: {what}\nusers: {:?}", world.user.log))
}

fn disturb_and_settle(world: &mut World) -> Result<(), String> {
    for _ in 0..DISTURBED_STEPS {
        world.disturb();
        world.step();
    }
    world.settle_and_check()?;
    world.user.release_all(&mut world.server);
    world.settle_and_check()?;
    world.user.delete_all_domains(&mut world.server);
    world.settle_and_check()?;
    match world.server.domains.values().next() {
        Some(domain) => Err(format!("left in the end: {:?}", domain.metadata)),
        None => Ok(()),
    }
}

/// What is wrong with any of the orders.
fn find_failure(fault: Fault) -> Option<String> {
    let number = std::env::var(SEEDS_VARIABLE).map(|text| text.parse().unwrap());
    let seeds = number.unwrap_or(SEEDS);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let failure_of = |first: usize| {
        let mut seeds = (0..seeds).skip(first).step_by(threads);
        seeds.find_map(|seed| run(seed, fault).err())
    };
    thread::scope(|scope| {
        let threads = (0..threads).map(|first| scope.spawn(move || failure_of(first)));
        let threads: Vec<_> = threads.collect();
        let failures = threads
            .into_iter()
            .filter_map(|thread| thread.join().unwrap());
        failures.min()
    })
}

#[test]
fn whatever_happens_nothing_is_left_nothing_is_missing_and_nothing_foreign_is_touched() {
    if let Some(failure) = find_failure(Fault::None) {
        panic!("{failure}");
    }
}

#[test]
fn a_controller_that_ignores_orphans_or_looks_nothing_up_is_found_out() {
    for fault in [
        Fault::IgnoresOrphans,
        Fault::LooksUpNoDomain,
        Fault::LooksUpNoTemplate,
    ] {
        assert!(find_failure(fault).is_some(), "{fault:?}");
    }
}
