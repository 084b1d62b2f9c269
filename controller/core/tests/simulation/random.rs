//! Thousands of random orders of events.

use std::thread;

use compute_domain_core::StatusSchema;

use crate::controller::Fault;
use crate::world::{OLD, Simulation};

/// The number of orders, unless [`SEEDS_VARIABLE`] has another one.
const SEEDS: u64 = 2_000;

const SEEDS_VARIABLE: &str = "SIMULATION_SEEDS";

/// Channels 1 to 3: fewer than there can be domains.
const CHANNELS: Option<u32> = Some(4);

/// The number of disturbed steps of each order.
const DISTURBED_STEPS: usize = 150;

/// Runs one order of events. Fails with the problem.
fn run(seed: u64, fault: Fault, channel_count: Option<u32>) -> Result<(), String> {
    let schema = match seed % 5 {
        0 => OLD,
        _ => StatusSchema::FULL,
    };
    let mut world = Simulation::new(seed, schema, fault, channel_count);
    let ended = disturb_and_settle(&mut world);
    ended.map_err(|what| format!("seed {seed}: {what}\nusers: {:?}", world.user.log))
}

fn disturb_and_settle(world: &mut Simulation) -> Result<(), String> {
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
        Some(domain) => Err(format!("left at the end: {:?}", domain.metadata)),
        None => Ok(()),
    }
}

/// The problem of any of the orders, if there is one.
fn find_failure(fault: Fault, channel_count: Option<u32>) -> Option<String> {
    let number = std::env::var(SEEDS_VARIABLE).map(|text| text.parse().unwrap());
    let seeds = number.unwrap_or(SEEDS);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let failure_of = |first: usize| {
        let mut seeds = (0..seeds).skip(first).step_by(threads);
        seeds.find_map(|seed| run(seed, fault, channel_count).err())
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

// req: CD-24
#[test]
fn in_any_order_of_events_no_object_is_left_or_missing_and_no_foreign_one_is_changed() {
    if let Some(failure) = find_failure(Fault::None, None) {
        panic!("{failure}");
    }
}

// req: CHANNEL-6
#[test]
fn in_any_order_of_events_no_two_domains_have_one_channel_and_cool_downs_are_observed() {
    if let Some(failure) = find_failure(Fault::None, CHANNELS) {
        panic!("{failure}");
    }
}

#[test]
fn a_controller_that_skips_cool_downs_or_ignores_claims_is_detected() {
    for fault in [Fault::HurriesCoolDowns, Fault::IgnoresClaims] {
        let failure = find_failure(fault, CHANNELS).unwrap_or_default();
        assert!(failure.contains("before its time"), "{fault:?}: {failure}");
    }
}

#[test]
fn a_controller_that_ignores_orphans_or_skips_look_ups_is_detected() {
    for fault in [
        Fault::IgnoresOrphans,
        Fault::LooksUpNoDomain,
        Fault::LooksUpNoTemplate,
    ] {
        assert!(find_failure(fault, None).is_some(), "{fault:?}");
    }
}
