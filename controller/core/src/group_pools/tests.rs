use compute_domain_api::names::{CLIQUE_LABEL, channel_device_name};
use serde_json::json;

use super::*;

const A: &str = "aaaaaaaa-0000-0000-0000-000000000001.7";
const SECOND: Duration = Duration::from_secs(1);
const ALL: RangeInclusive<u32> = 1..=127;
const NONE: RangeInclusive<u32> = RangeInclusive::new(1, 0);
const NOT_LONG: Duration = KEPT_FOR.saturating_sub(SECOND);

/// Pools, and an API server that has their slices.
struct World {
    pools: GroupPools,
    stored: BTreeMap<String, ResourceSlice>,
    version: usize,
    now: Instant,
}

impl World {
    fn new(channels: RangeInclusive<u32>) -> Self {
        Self {
            pools: GroupPools::new(channels),
            stored: BTreeMap::new(),
            version: 0,
            now: Instant::now(),
        }
    }

    /// A controller that starts with what the API server has.
    fn restarted(self, channels: RangeInclusive<u32>) -> Self {
        let mut pools = GroupPools::new(channels);
        pools.begin();
        for slice in self.stored.values() {
            pools.apply(slice, self.now);
        }
        pools.finish(self.now);
        Self { pools, ..self }
    }

    fn want(&mut self, wanted: bool) {
        self.pools.set_wanted(&A.into(), wanted, self.now);
    }

    /// Does the next step, with an answer for what is asked. Returns it in a word.
    fn step(&mut self, allowed: bool, in_use: &[&str]) -> Option<String> {
        let (clique, step) = self.pools.next(self.now)?;
        Some(match step {
            PoolStep::FindDomains => {
                self.pools.set_may_create(allowed, &clique, self.now);
                "domains?".to_owned()
            }
            PoolStep::FindClaims => {
                let in_use = in_use.iter().map(|clique| (*clique).into()).collect();
                let kept = self.pools.set_in_use(&in_use, self.now);
                format!("claims? {}", kept.len())
            }
            PoolStep::Create(slice) => {
                assert!(
                    !self
                        .stored
                        .contains_key(slice.metadata.name.as_ref().unwrap())
                );
                self.store("create", slice)
            }
            PoolStep::Replace(slice) => {
                let before = &self.stored[slice.metadata.name.as_ref().unwrap()];
                assert_eq!(
                    before.metadata.resource_version,
                    slice.metadata.resource_version
                );
                self.store("replace", slice)
            }
            PoolStep::Delete { name, uid } => {
                let gone = self.stored.remove(&*name).unwrap();
                assert_eq!(gone.metadata.uid.as_deref(), Some(&*uid));
                self.pools.deleted(&clique, &uid, self.now);
                format!("delete {}", short(&name))
            }
        })
    }

    fn store(&mut self, verb: &str, mut slice: ResourceSlice) -> String {
        self.version += 1;
        let name = slice.metadata.name.clone().unwrap();
        let uid = slice
            .metadata
            .uid
            .get_or_insert_with(|| format!("uid-{}", self.version));
        assert!(!uid.is_empty());
        slice.metadata.resource_version = Some(self.version.to_string());
        let said = format!("{verb} {} of {}", short(&name), slice.spec.pool.generation);
        self.pools.apply(&slice, self.now);
        self.stored.insert(name, slice);
        said
    }

    fn steps(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.step(true, &[])).collect()
    }

    /// Somebody changes a slice, and the watch tells.
    fn edit(&mut self, number: usize, change: impl FnOnce(&mut ResourceSlice)) {
        let mut slice = self.stored[&name(number)].clone();
        change(&mut slice);
        self.version += 1;
        slice.metadata.resource_version = Some(self.version.to_string());
        self.pools.apply(&slice, self.now);
        self.stored.insert(name(number), slice);
    }

    /// Somebody deletes a slice, and the watch tells.
    fn delete(&mut self, number: usize) {
        let slice = self.stored.remove(&name(number)).unwrap();
        self.pools.remove(&slice, self.now);
    }

    /// A pool that is as it should be.
    fn complete() -> Self {
        let mut world = Self::new(ALL);
        world.want(true);
        assert_eq!(
            world.steps(),
            ["domains?", "create 1 of 1", "create 2 of 1"]
        );
        world
    }
}

fn name(number: usize) -> String {
    format!("compute-domain-clique-{A}-{number}")
}

fn short(name: &str) -> &str {
    name.rsplit_once('-').unwrap().1
}

#[test]
fn a_pool_is_two_slices_of_the_nodes_of_its_clique_and_every_device_has_type_and_id() {
    let world = World::complete();
    let slices: Vec<_> = world.stored.values().collect();
    let sizes = slices
        .iter()
        .map(|slice| slice.spec.devices.as_ref().unwrap().len());
    assert_eq!(sizes.collect::<Vec<_>>(), [64, 63]);
    for slice in &slices {
        let spec = serde_json::to_value(&slice.spec).unwrap();
        assert_eq!(spec["driver"], "compute-domain.nvidia.com");
        assert_eq!(
            spec["pool"],
            json!({ "name": format!("clique-{A}"), "generation": 1, "resourceSliceCount": 2 })
        );
        assert_eq!(
            spec["nodeSelector"],
            json!({ "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": CLIQUE_LABEL, "operator": "In", "values": [A] },
        ] }] })
        );
        assert_eq!((spec.get("nodeName"), spec.get("allNodes")), (None, None));
    }
    let devices = slices
        .iter()
        .flat_map(|slice| slice.spec.devices.iter().flatten());
    for (device, number) in devices.zip(ALL) {
        assert_eq!(device.name, channel_device_name(number));
        // A class of the driver that reads an attribute which one device has not fails for all.
        assert_eq!(
            serde_json::to_value(&device.attributes).unwrap(),
            json!({ "type": { "string": "clique-channel" }, "id": { "int": number } })
        );
    }
}

#[test]
fn the_longest_name_of_a_clique_gives_names_that_an_api_server_takes() {
    let clique = format!("{}.{}", "ffffffff-ffff-ffff-ffff-ffffffffffff", u32::MAX);
    let slice = mk_slice(&clique, &ALL, Place { index: 1 }, 1);
    for name in [
        slice.metadata.name.as_deref().unwrap(),
        &slice.spec.pool.name,
    ] {
        assert!(name.len() <= 253, "{name}");
        for part in name.split('.') {
            let ends = [part.chars().next().unwrap(), part.chars().last().unwrap()];
            assert!(ends.iter().all(char::is_ascii_alphanumeric), "{name}");
            assert!(
                part.chars()
                    .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-')),
                "{name}"
            );
        }
    }
    assert!(clique.len() <= 63, "the value of a label");
    assert_eq!(
        Place::of(&slice),
        Some((clique.as_str().into(), Place { index: 1 }))
    );
}

#[test]
fn a_pool_that_is_right_needs_nothing_also_after_a_restart() {
    let mut world = World::complete();
    let slices: Vec<_> = world.stored.values().cloned().collect();
    for slice in &slices {
        world.pools.apply(slice, world.now);
    }
    assert_eq!(world.steps(), [""; 0]);
    let mut world = world.restarted(ALL);
    world.want(true);
    assert_eq!(
        world.steps(),
        [""; 0],
        "not even whether domains have its numbers"
    );
    assert_eq!(world.pools.count(), 1);
}

#[test]
fn a_slice_that_a_new_list_does_not_have_is_created_again() {
    let mut world = World::complete();
    world.stored.remove(&name(2));
    world.pools.begin();
    for slice in world.stored.values() {
        world.pools.apply(slice, world.now);
    }
    world.pools.finish(world.now);
    assert_eq!(world.steps(), ["create 2 of 1"]);
}

#[test]
fn what_others_do_to_a_slice_is_undone_in_one_generation() {
    let mut world = World::complete();
    world.delete(2);
    assert_eq!(world.steps(), ["create 2 of 1"]);
    world.edit(1, |slice| slice.spec.devices = None);
    assert_eq!(world.steps(), ["replace 1 of 2", "replace 2 of 2"]);
    world.edit(2, |slice| slice.spec.pool.generation = 9);
    assert_eq!(world.steps(), ["replace 1 of 9"]);
    world.edit(2, |slice| slice.spec.node_selector = None);
    assert_eq!(world.steps(), ["replace 1 of 10", "replace 2 of 10"]);
}

#[test]
fn a_controller_that_dies_after_any_request_leaves_what_the_next_one_finishes() {
    // From nothing, and to half as many channels.
    for (before, channels) in [(NONE, ALL), (ALL, 1..=40), (1..=40, ALL)] {
        let start = || {
            let mut world = World::new(before.clone());
            world.want(true);
            world.steps();
            let mut world = world.restarted(channels.clone());
            world.want(true);
            world
        };
        let undisturbed = start().steps().len();
        for killed_after in 0..=undisturbed {
            let mut world = start();
            for _ in 0..killed_after {
                world.step(true, &[]);
            }
            let mut world = world.restarted(channels.clone());
            world.want(true);
            world.steps();
            let sizes = world
                .stored
                .values()
                .map(|it| it.spec.devices.as_ref().unwrap().len());
            assert_eq!(sizes.sum::<usize>(), channels.clone().count());
            let pools: BTreeSet<_> = world
                .stored
                .values()
                .map(|it| it.spec.pool.generation)
                .collect();
            assert_eq!(pools.len(), 1, "{killed_after}");
            let counts = world
                .stored
                .values()
                .map(|it| it.spec.pool.resource_slice_count);
            assert!(
                counts
                    .into_iter()
                    .all(|count| count == i64::try_from(world.stored.len()).unwrap())
            );
        }
    }
}

#[test]
fn no_pool_is_created_while_a_domain_has_a_number_of_a_group() {
    let mut world = World::new(ALL);
    world.want(true);
    world.pools.set_wanted(
        &"bbbbbbbb-0000-0000-0000-000000000001.0".into(),
        true,
        world.now,
    );
    assert_eq!(world.step(false, &[]).as_deref(), Some("domains?"));
    assert_eq!(world.step(false, &[]), None, "not once for each clique");
    world.now += REFUSED_FOR;
    assert_eq!(world.step(false, &[]).as_deref(), Some("domains?"));
    world.now += REFUSED_FOR;
    assert_eq!(world.steps().len(), 1 + 4);
}

#[test]
fn a_pool_without_nodes_goes_after_ten_minutes_if_no_claim_is_allocated_from_it() {
    let mut world = World::complete();
    world.want(false);
    assert_eq!(world.steps(), [""; 0]);
    world.now += NOT_LONG;
    assert_eq!(world.steps(), [""; 0]);
    world.now += SECOND;
    assert_eq!(world.step(true, &[A]).as_deref(), Some("claims? 1"));
    assert_eq!(world.steps(), [""; 0]);
    world.now += KEPT_FOR;
    assert_eq!(world.steps(), ["claims? 0", "delete 2", "delete 1"]);
    assert_eq!((world.pools.count(), world.pools.due()), (0, None));
}

#[test]
fn a_clique_whose_nodes_come_back_in_time_keeps_its_pool() {
    let mut world = World::complete();
    world.want(false);
    assert_eq!(world.steps(), [""; 0]);
    world.now += NOT_LONG;
    world.want(true);
    world.now += KEPT_FOR;
    assert_eq!(world.steps(), [""; 0]);
    // The ten minutes begin anew.
    world.want(false);
    assert_eq!(world.steps(), [""; 0]);
    world.now += NOT_LONG;
    assert_eq!(world.steps(), [""; 0]);
}

#[test]
fn pools_that_were_switched_off_go_as_those_without_nodes() {
    let mut world = World::complete().restarted(NONE);
    assert!(!world.pools.are_wanted());
    world.want(true);
    assert_eq!(world.steps(), [""; 0]);
    world.now += KEPT_FOR;
    assert_eq!(world.step(true, &[A]).as_deref(), Some("claims? 1"));
    world.now += KEPT_FOR;
    assert_eq!(world.steps(), ["claims? 0", "delete 2", "delete 1"]);
}

#[test]
fn slices_of_others_are_neither_counted_nor_touched() {
    let mut world = World::complete();
    let ours = world.stored[&name(1)].clone();
    let edits: [fn(&mut ResourceSlice); 5] = [
        |slice| slice.metadata.name = Some("by-hand".to_owned()),
        |slice| slice.metadata.name = Some("by-hand-1".to_owned()),
        |slice| slice.spec.driver = "gpu.nvidia.com".to_owned(),
        |slice| slice.spec.pool.name = "node-1".to_owned(),
        |slice| slice.spec.node_name = Some("node-1".to_owned()),
    ];
    for edit in edits {
        let mut slice = ours.clone();
        slice.spec.devices = None;
        edit(&mut slice);
        world.pools.apply(&slice, world.now);
        assert_eq!(world.steps(), [""; 0], "{slice:?}");
        world.pools.remove(&slice, world.now);
        assert_eq!(world.steps(), [""; 0], "{slice:?}");
    }
}

#[test]
fn what_the_watch_tells_late_does_not_replace_what_an_answer_has_told() {
    let mut world = World::complete();
    let before = world.stored[&name(1)].clone();
    world.edit(1, |slice| slice.spec.devices = None);
    let edited = world.stored[&name(1)].clone();
    assert_eq!(world.steps().len(), 2);
    for late in [before, edited] {
        world.pools.apply(&late, world.now);
        assert_eq!(world.steps(), [""; 0]);
    }
}

#[test]
fn a_request_that_failed_is_made_again() {
    let mut world = World::complete();
    world.delete(1);
    let (clique, step) = world.pools.next(world.now).unwrap();
    world.pools.failed(&clique, world.now);
    assert_eq!(world.pools.next(world.now), None);
    world.now += RETRY_AFTER;
    assert_eq!(world.pools.next(world.now), Some((clique, step)));
}

#[test]
fn only_pools_of_cliques_are_cliques() {
    let pool = format!("clique-{A}");
    let names = [
        pool.as_str(),
        "node-1",
        "clique-",
        "clique-7",
        "clique-of-nodes.example.com",
    ];
    let found = cliques_of_pools(names.into_iter());
    assert_eq!(found, HashSet::from([Box::from(A)]));
}
