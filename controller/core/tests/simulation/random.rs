//! Thousands of orders of events.

use std::thread;

use compute_domain_core::StatusSchema;

use crate::controller::Fault;
use crate::world::{OLD, World};

/// How many orders are tried, unless [`SEEDS_VARIABLE`] has another number.
const SEEDS: u64 = 2_000;

const SEEDS_VARIABLE: &str = "SIMULATION_SEEDS";

/// Channels 1 to 3: not enough for the domains that there can be.
const CHANNELS: Option<u32> = Some(4);

/// How much happens in each before everything comes to rest.
const DISTURBED_STEPS: usize = 150;

/// One order of events. Returns what is wrong in the end.
fn run(seed: u64, fault: Fault, channel_count: Option<u32>) -> Result<(), String> {
    let schema = match seed % 5 {
        0 => OLD,
        _ => StatusSchema::FULL,
    };
    let mut world = World::new(seed, schema, fault, channel_count);
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
fn whatever_happens_nothing_is_left_nothing_is_missing_and_nothing_foreign_is_touched() {
    if let Some(failure) = find_failure(Fault::None, None) {
        panic!("{failure}");
    }
}

// req: CHANNEL-6
#[test]
fn whatever_happens_no_two_domains_have_one_channel_and_none_is_given_before_its_time() {
    if let Some(failure) = find_failure(Fault::None, CHANNELS) {
        panic!("{failure}");
    }
}

#[test]
fn a_controller_that_hurries_cool_downs_or_ignores_claims_is_found_out() {
    for fault in [Fault::HurriesCoolDowns, Fault::IgnoresClaims] {
        let failure = find_failure(fault, CHANNELS).unwrap_or_default();
        assert!(failure.contains("before its time"), "{fault:?}: {failure}");
    }
}

#[test]
fn a_controller_that_ignores_orphans_or_looks_nothing_up_is_found_out() {
    for fault in [
        Fault::IgnoresOrphans,
        Fault::LooksUpNoDomain,
        Fault::LooksUpNoTemplate,
    ] {
        assert!(find_failure(fault, None).is_some(), "{fault:?}");
    }
}
