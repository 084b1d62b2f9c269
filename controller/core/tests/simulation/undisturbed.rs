//! The life of a domain without disturbances, except that the controller may be killed.

use compute_domain_api::crd::ComputeDomainState;
use compute_domain_core::StatusSchema;

use crate::checks::check;
use crate::controller::Fault;
use crate::objects::{Place, mk_domain};
use crate::world::{OLD, Simulation};

fn mk_place() -> Place {
    ("team-1".to_owned(), "train-a".to_owned())
}

/// A simulation in which the controller has listed no objects and is idle.
fn mk_world(seed: u64, schema: StatusSchema) -> Simulation {
    mk_world_with(seed, schema, None)
}

/// The same, with a channel for each domain if there are channels.
fn mk_world_with(seed: u64, schema: StatusSchema, channels: Option<u32>) -> Simulation {
    let mut world = Simulation::new(seed, schema, Fault::None, channels);
    world.settle().unwrap();
    world
}

fn create(world: &mut Simulation) {
    let domain = mk_domain(&mk_place(), "channel-a", "Single");
    world.server.create_domain(domain).unwrap();
}

fn delete(world: &mut Simulation) {
    world.server.delete_domain(&mk_place()).unwrap();
}

/// Writes and reads since the last call.
fn requests(world: &mut Simulation) -> (usize, usize) {
    let server = &mut world.server;
    (
        std::mem::take(&mut server.writes),
        std::mem::take(&mut server.reads),
    )
}

fn is_ready(world: &Simulation) -> bool {
    let domain = world.server.domains.get(&mk_place());
    let status = domain.and_then(|domain| domain.status.as_ref());
    status.is_some_and(|status| status.status == ComputeDomainState::Ready)
}

#[test]
fn a_create_is_three_writes_a_delete_is_three_and_nothing_is_read() {
    for seed in 0..200 {
        let mut world = mk_world(seed, StatusSchema::FULL);
        create(&mut world);
        world.settle_and_check().unwrap();
        assert!(is_ready(&world), "seed {seed}");
        assert_eq!(requests(&mut world), (3, 0), "seed {seed}");
        delete(&mut world);
        world.settle_and_check().unwrap();
        assert_eq!(requests(&mut world), (3, 0), "seed {seed}");
        assert!(world.server.is_empty());
    }
}

#[test]
fn a_channel_costs_two_more_writes_each_way_and_three_reads_one_of_them_once_for_all() {
    for seed in 0..200 {
        let mut world = mk_world_with(seed, StatusSchema::FULL, Some(4));
        create(&mut world);
        world.settle_and_check().unwrap();
        assert!(is_ready(&world), "seed {seed}");
        assert_eq!(requests(&mut world), (5, 1), "seed {seed}");
        delete(&mut world);
        world.settle_and_check().unwrap();
        assert_eq!(requests(&mut world), (5, 2), "seed {seed}");
        assert!(world.server.is_empty());
    }
}

#[test]
fn an_older_crd_costs_one_refused_write_per_field_and_then_no_more() {
    let mut world = mk_world(1, OLD);
    create(&mut world);
    world.settle_and_check().unwrap();
    assert_eq!(requests(&mut world), (5, 0));
    delete(&mut world);
    world.settle_and_check().unwrap();
    create(&mut world);
    world.settle_and_check().unwrap();
    assert_eq!(requests(&mut world), (6, 0));
}

#[test]
fn a_restart_of_an_idle_controller_sends_no_request() {
    for schema in [StatusSchema::FULL, OLD] {
        let mut world = mk_world(1, schema);
        create(&mut world);
        world.settle_and_check().unwrap();
        requests(&mut world);
        world.kill();
        if schema == OLD {
            // Until it has detected that, it writes the missing fields.
            world.controller.schema_is(schema);
        }
        world.settle_and_check().unwrap();
        assert_eq!(requests(&mut world), (0, 0), "{schema:?}");
    }
}

/// Runs the life of a domain with a kill after this many steps. Returns whether there were so many steps.
fn life_with_a_kill(seed: u64, kill_after: usize, channels: Option<u32>) -> bool {
    let mut world = mk_world_with(seed, StatusSchema::FULL, channels);
    let mut left = kill_after;
    for act in [create as fn(&mut Simulation), delete] {
        act(&mut world);
        while left > 0 && world.step() {
            left -= 1;
        }
        if left == 0 {
            world.kill();
            left = usize::MAX;
        }
        let settled = world.settle_and_check();
        assert_eq!(
            settled,
            Ok(()),
            "seed {seed}, killed after {kill_after} steps"
        );
    }
    check(&world.server, channels).unwrap();
    assert!(world.server.is_empty());
    left > kill_after
}

// req: CD-24
#[test]
fn a_controller_that_is_killed_at_any_step_leaves_no_trace() {
    for (seed, channels) in (0..20).flat_map(|seed| [(seed, None), (seed, Some(4))]) {
        let kills = (1..).take_while(|steps| life_with_a_kill(seed, *steps, channels));
        assert!(kills.count() > 20, "seed {seed}");
    }
}
