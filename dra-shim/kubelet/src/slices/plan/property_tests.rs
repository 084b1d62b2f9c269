//! For any pool and any interruption of a change, a scheduler sees the old devices, the new
//! devices, or none.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::tests::api::{Server, mk_device, mk_pool, visible};
use super::*;

/// A change of slices by other clients, crashes or earlier versions.
#[derive(Clone, Debug)]
enum Damage {
    Lose(Index),
    /// A second slice with the same index.
    Double(Index),
    /// Sets an older generation, as if an update had not reached the slice.
    Outdate(Index),
    /// Renames the slice to a name of Go's generateName.
    Rename(Index),
    /// Renames the slice to a name without an index.
    Misname(Index),
    Miscount(Index),
    Empty(Index),
    OtherPool(Index),
}

fn any_damage() -> impl Strategy<Value = Damage> {
    (0..8_u8, any::<Index>()).prop_map(|(kind, index)| match kind {
        0 => Damage::Lose(index),
        1 => Damage::Double(index),
        2 => Damage::Outdate(index),
        3 => Damage::Rename(index),
        4 => Damage::Misname(index),
        5 => Damage::Miscount(index),
        6 => Damage::Empty(index),
        _ => Damage::OtherPool(index),
    })
}

/// Devices for up to four slices, in several versions.
fn any_devices() -> impl Strategy<Value = Vec<Device>> {
    let few = btree_map(0..300_u16, 0..2_u8, 0..5);
    let many = (0..230_u16, btree_map(0..230_u16, 0..2_u8, 0..4)).prop_map(|(count, changed)| {
        let version = |number| changed.get(&number).copied().unwrap_or_default();
        (0..count).map(|number| (number, version(number))).collect()
    });
    prop_oneof![few, many].prop_map(|devices: BTreeMap<u16, u8>| {
        let devices = devices.into_iter();
        devices
            .map(|(number, version)| mk_device(number, version))
            .collect()
    })
}

/// The desired devices, the damage before, and the number and order of steps before the process
/// dies.
fn any_round() -> impl Strategy<Value = (Vec<Device>, Vec<Damage>, Vec<usize>)> {
    (
        any_devices(),
        vec(any_damage(), 0..3),
        vec(any::<usize>(), 0..8),
    )
}

fn damage(server: &mut Server, damage: &Damage) {
    let names = server.names();
    if names.is_empty() {
        return;
    }
    let take = |index: &Index| index.get(&names).clone();
    let renamed = |server: &Server, old: &str, new: String| {
        let mut slice = server.slices[old].clone();
        slice.metadata.name = Some(new);
        slice
    };
    match damage {
        Damage::Lose(index) => {
            server.slices.remove(&take(index));
        }
        Damage::Double(index) => {
            let old = take(index);
            let twin = renamed(server, &old, format!("{old}-zzzzz"));
            server.put(twin);
        }
        Damage::Outdate(index) => {
            let mut slice = server.slices[&take(index)].clone();
            slice.spec.pool.generation -= 1;
            server.put(slice);
        }
        Damage::Rename(index) | Damage::Misname(index) => {
            let old = take(index);
            let new = match damage {
                Damage::Rename(_) => format!("{old}-x7k2p"),
                _ => format!("n1-{old}"),
            };
            let slice = renamed(server, &old, new);
            server.slices.remove(&old);
            server.put(slice);
        }
        Damage::Miscount(index) => {
            let mut slice = server.slices[&take(index)].clone();
            slice.spec.pool.resource_slice_count += 1;
            server.put(slice);
        }
        Damage::Empty(index) => {
            let mut slice = server.slices[&take(index)].clone();
            slice.spec.devices = None;
            server.put(slice);
        }
        Damage::OtherPool(index) => {
            let old = take(index);
            let mut slice = renamed(server, &old, format!("{old}-other"));
            slice.spec.pool.name = "other".into();
            server.put(slice);
        }
    }
}

/// Runs the steps of each stage in the given order, until `order` ends.
fn run(
    server: &mut Server,
    devices: &[Device],
    mut order: impl Iterator<Item = usize>,
) -> Result<(), TestCaseError> {
    let pool = mk_pool();
    let before = server.visible("n1");
    let wanted = Some(visible(devices));
    let stages = publish(&pool, devices, &StoredForms::default(), &server.slices).unwrap();
    for mut stage in stages {
        while !stage.is_empty() {
            let Some(index) = order.next() else {
                return Ok(());
            };
            let step = stage.remove(index % stage.len());
            server.apply(step).expect("no other client writes");
            let now = server.visible("n1");
            prop_assert!(
                now.is_none() || now == before || now == wanted,
                "a mixture: {now:?}"
            );
            let is_double = now == wanted && before != wanted && server.visible("other").is_some();
            prop_assert!(!is_double, "two pools with the same devices");
        }
    }
    Ok(())
}

proptest! {
    // req: KUBELET-39
    #[test]
    fn the_scheduler_sees_the_old_pool_or_the_new_one_or_none(
        rounds in vec(any_round(), 1..5),
        last in any_devices(),
    ) {
        let mut server = Server::default();
        let forever = || std::iter::repeat(0);
        for (devices, damages, order) in rounds {
            run(&mut server, &devices, forever())?;
            for each in &damages {
                damage(&mut server, each);
            }
            run(&mut server, &last, order.into_iter())?;
        }
        run(&mut server, &last, forever())?;
        prop_assert_eq!(server.visible("n1"), Some(visible(&last)));
        prop_assert_eq!(server.visible("other"), None);
        let needed = last.len().div_ceil(layout::MAX_DEVICES).max(1);
        prop_assert!(server.slices.len() >= needed);
        let again = publish(&mk_pool(), &last, &StoredForms::default(), &server.slices).unwrap();
        prop_assert_eq!(again, Vec::<Stage>::new());
    }

    #[test]
    fn one_changed_device_is_one_write_in_the_same_generation(
        count in 1..230_u16,
        changed in any::<Index>(),
    ) {
        let mut devices: Vec<_> = (0..count).map(|number| mk_device(number, 0)).collect();
        let mut server = Server::default();
        let forever = || std::iter::repeat(0);
        run(&mut server, &devices, forever())?;
        let before = server.writes;
        let changed = changed.index(devices.len());
        devices[changed] = mk_device(u16::try_from(changed).unwrap(), 1);
        run(&mut server, &devices, forever())?;
        prop_assert_eq!(server.writes, before + 1);
        let is_first = |slice: &ResourceSlice| slice.spec.pool.generation == 1;
        prop_assert!(server.slices.values().all(is_first));
    }
}

#[test]
fn the_model_detects_a_mixture_if_the_generation_is_kept() {
    let devices = |version| -> Vec<_> { (0..100).map(|n| mk_device(n, version)).collect() };
    let (old, new) = (devices(0), devices(1));
    let mut server = Server::default();
    run(&mut server, &old, std::iter::repeat(0)).unwrap();
    let stages = publish(&mk_pool(), &new, &StoredForms::default(), &server.slices).unwrap();
    let Some(Step::Replace(mut slice)) = stages.into_iter().flatten().next() else {
        panic!("nothing to replace")
    };
    slice.spec.pool.generation -= 1;
    server.apply(Step::Replace(slice)).unwrap();
    let seen = server.visible("n1").unwrap();
    assert!(seen != visible(&old) && seen != visible(&new));
}
