use compute_domain_api::names::{CLIQUE_LABEL, channel_device_name};
use serde_json::json;

use super::*;

const A: &str = "aaaaaaaa-0000-0000-0000-000000000001.7";
const SECOND: Duration = Duration::from_secs(1);
const ALL: RangeInclusive<u32> = 1..=127;
const NONE: RangeInclusive<u32> = RangeInclusive::new(1, 0);
const NOT_LONG: Duration = KEPT_FOR.saturating_sub(SECOND);

/// The pools and an API server with their slices.
struct Cluster {
    pools: GroupPools,
    stored: BTreeMap<String, ResourceSlice>,
    version: usize,
    now: Instant,
}

impl Cluster {
    fn new(channels: RangeInclusive<u32>) -> Self {
        Self {
            pools: GroupPools::new(channels),
            stored: BTreeMap::new(),
            version: 0,
            now: Instant::now(),
        }
    }

    /// A controller that starts with the slices of the API server.
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

    /// Does the next step, with these responses. Returns a short text for it.
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
        let text = format!("{verb} {} of {}", short(&name), slice.spec.pool.generation);
        self.pools.apply(&slice, self.now);
        self.stored.insert(name, slice);
        text
    }

    fn steps(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.step(true, &[])).collect()
    }

    /// Another client changes a slice, and the watch delivers it.
    fn edit(&mut self, number: usize, change: impl FnOnce(&mut ResourceSlice)) {
        let mut slice = self.stored[&name(number)].clone();
        change(&mut slice);
        self.version += 1;
        slice.metadata.resource_version = Some(self.version.to_string());
        self.pools.apply(&slice, self.now);
        self.stored.insert(name(number), slice);
    }

    /// Another client deletes a slice, and the watch delivers it.
    fn delete(&mut self, number: usize) {
        let slice = self.stored.remove(&name(number)).unwrap();
        self.pools.remove(&slice, self.now);
    }

    /// A complete pool.
    fn complete() -> Self {
        let mut cluster = Self::new(ALL);
        cluster.want(true);
        assert_eq!(
            cluster.steps(),
            ["domains?", "create 1 of 1", "create 2 of 1"]
        );
        cluster
    }
}

fn name(number: usize) -> String {
    format!("compute-domain-clique-{A}-{number}")
}

fn short(name: &str) -> &str {
    name.rsplit_once('-').unwrap().1
}

#[test]
fn a_pool_has_two_slices_for_its_cliques_nodes_and_every_device_has_type_and_id() {
    let cluster = Cluster::complete();
    let slices: Vec<_> = cluster.stored.values().collect();
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
        // A device class that reads an attribute fails for all devices if one device lacks it.
        assert_eq!(
            serde_json::to_value(&device.attributes).unwrap(),
            json!({ "type": { "string": "clique-channel" }, "id": { "int": number } })
        );
    }
}

#[test]
fn the_longest_name_of_a_clique_gives_valid_names() {
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
fn a_complete_pool_needs_nothing_also_after_a_restart() {
    let mut cluster = Cluster::complete();
    let slices: Vec<_> = cluster.stored.values().cloned().collect();
    for slice in &slices {
        cluster.pools.apply(slice, cluster.now);
    }
    assert_eq!(cluster.steps(), [""; 0]);
    let mut cluster = cluster.restarted(ALL);
    cluster.want(true);
    assert_eq!(
        cluster.steps(),
        [""; 0],
        "not even whether domains have its numbers"
    );
    assert_eq!(cluster.pools.count(), 1);
}

#[test]
fn a_slice_that_a_new_list_does_not_have_is_created_again() {
    let mut cluster = Cluster::complete();
    cluster.stored.remove(&name(2));
    cluster.pools.begin();
    for slice in cluster.stored.values() {
        cluster.pools.apply(slice, cluster.now);
    }
    cluster.pools.finish(cluster.now);
    assert_eq!(cluster.steps(), ["create 2 of 1"]);
}

#[test]
fn changes_by_others_are_reverted_in_one_generation() {
    let mut cluster = Cluster::complete();
    cluster.delete(2);
    assert_eq!(cluster.steps(), ["create 2 of 1"]);
    cluster.edit(1, |slice| slice.spec.devices = None);
    assert_eq!(cluster.steps(), ["replace 1 of 2", "replace 2 of 2"]);
    cluster.edit(2, |slice| slice.spec.pool.generation = 9);
    assert_eq!(cluster.steps(), ["replace 1 of 9"]);
    cluster.edit(2, |slice| slice.spec.node_selector = None);
    assert_eq!(cluster.steps(), ["replace 1 of 10", "replace 2 of 10"]);
}

#[test]
fn after_a_crash_at_any_request_the_next_leader_completes_the_pool() {
    // From no pool, and to half as many channels.
    for (before, channels) in [(NONE, ALL), (ALL, 1..=40), (1..=40, ALL)] {
        let start = || {
            let mut cluster = Cluster::new(before.clone());
            cluster.want(true);
            cluster.steps();
            let mut cluster = cluster.restarted(channels.clone());
            cluster.want(true);
            cluster
        };
        let undisturbed = start().steps().len();
        for killed_after in 0..=undisturbed {
            let mut cluster = start();
            for _ in 0..killed_after {
                cluster.step(true, &[]);
            }
            let mut cluster = cluster.restarted(channels.clone());
            cluster.want(true);
            cluster.steps();
            let sizes = cluster
                .stored
                .values()
                .map(|it| it.spec.devices.as_ref().unwrap().len());
            assert_eq!(sizes.sum::<usize>(), channels.clone().count());
            let pools: BTreeSet<_> = cluster
                .stored
                .values()
                .map(|it| it.spec.pool.generation)
                .collect();
            assert_eq!(pools.len(), 1, "{killed_after}");
            let counts = cluster
                .stored
                .values()
                .map(|it| it.spec.pool.resource_slice_count);
            assert!(
                counts
                    .into_iter()
                    .all(|count| count == i64::try_from(cluster.stored.len()).unwrap())
            );
        }
    }
}

#[test]
fn no_pool_is_created_while_a_domain_has_a_group_channel() {
    let mut cluster = Cluster::new(ALL);
    cluster.want(true);
    cluster.pools.set_wanted(
        &"bbbbbbbb-0000-0000-0000-000000000001.0".into(),
        true,
        cluster.now,
    );
    assert_eq!(cluster.step(false, &[]).as_deref(), Some("domains?"));
    assert_eq!(cluster.step(false, &[]), None, "not once for each clique");
    cluster.now += REFUSED_FOR;
    assert_eq!(cluster.step(false, &[]).as_deref(), Some("domains?"));
    cluster.now += REFUSED_FOR;
    assert_eq!(cluster.steps().len(), 1 + 4);
}

#[test]
fn a_pool_without_nodes_is_deleted_after_ten_minutes_if_no_claim_is_allocated_from_it() {
    let mut cluster = Cluster::complete();
    cluster.want(false);
    assert_eq!(cluster.steps(), [""; 0]);
    cluster.now += NOT_LONG;
    assert_eq!(cluster.steps(), [""; 0]);
    cluster.now += SECOND;
    assert_eq!(cluster.step(true, &[A]).as_deref(), Some("claims? 1"));
    assert_eq!(cluster.steps(), [""; 0]);
    cluster.now += KEPT_FOR;
    assert_eq!(cluster.steps(), ["claims? 0", "delete 2", "delete 1"]);
    assert_eq!((cluster.pools.count(), cluster.pools.due()), (0, None));
}

#[test]
fn a_clique_whose_nodes_return_in_time_keeps_its_pool() {
    let mut cluster = Cluster::complete();
    cluster.want(false);
    assert_eq!(cluster.steps(), [""; 0]);
    cluster.now += NOT_LONG;
    cluster.want(true);
    cluster.now += KEPT_FOR;
    assert_eq!(cluster.steps(), [""; 0]);
    // The ten minutes start again.
    cluster.want(false);
    assert_eq!(cluster.steps(), [""; 0]);
    cluster.now += NOT_LONG;
    assert_eq!(cluster.steps(), [""; 0]);
}

#[test]
fn pools_that_are_switched_off_are_deleted_like_pools_without_nodes() {
    let mut cluster = Cluster::complete().restarted(NONE);
    assert!(!cluster.pools.are_wanted());
    cluster.want(true);
    assert_eq!(cluster.steps(), [""; 0]);
    cluster.now += KEPT_FOR;
    assert_eq!(cluster.step(true, &[A]).as_deref(), Some("claims? 1"));
    cluster.now += KEPT_FOR;
    assert_eq!(cluster.steps(), ["claims? 0", "delete 2", "delete 1"]);
}

#[test]
fn foreign_slices_are_neither_counted_nor_changed() {
    let mut cluster = Cluster::complete();
    let ours = cluster.stored[&name(1)].clone();
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
        cluster.pools.apply(&slice, cluster.now);
        assert_eq!(cluster.steps(), [""; 0], "{slice:?}");
        cluster.pools.remove(&slice, cluster.now);
        assert_eq!(cluster.steps(), [""; 0], "{slice:?}");
    }
}

#[test]
fn a_late_watch_event_does_not_replace_a_newer_response() {
    let mut cluster = Cluster::complete();
    let before = cluster.stored[&name(1)].clone();
    cluster.edit(1, |slice| slice.spec.devices = None);
    let edited = cluster.stored[&name(1)].clone();
    assert_eq!(cluster.steps().len(), 2);
    for late in [before, edited] {
        cluster.pools.apply(&late, cluster.now);
        assert_eq!(cluster.steps(), [""; 0]);
    }
}

#[test]
fn a_failed_request_is_retried() {
    let mut cluster = Cluster::complete();
    cluster.delete(1);
    let (clique, step) = cluster.pools.next(cluster.now).unwrap();
    cluster.pools.failed(&clique, cluster.now);
    assert_eq!(cluster.pools.next(cluster.now), None);
    cluster.now += RETRY_AFTER;
    assert_eq!(cluster.pools.next(cluster.now), Some((clique, step)));
}

#[test]
fn only_names_of_clique_pools_give_cliques() {
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
