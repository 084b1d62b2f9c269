//! Specs with any valid content.

use std::collections::BTreeMap;

use imex_cdi::{
    ContainerEdits, Device, DeviceName, DeviceNode, DeviceType, Hook, IntelRdt, Mount, NetDevice,
    Permissions, Spec,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn spec() -> impl Strategy<Value = Spec> {
    let names = btree_set("[a-z0-9]([a-z0-9_.:-]{0,6}[a-z0-9])?", 1..5);
    let kind = "[a-z]([a-z0-9.-]{0,6}[a-z0-9])?/[a-z]([a-z0-9.-]{0,6}[a-z0-9])?";
    (kind, annotations(), names, edits())
        .prop_flat_map(|(kind, annotations, names, edits)| {
            let devices: Vec<_> = names.into_iter().map(device).collect();
            (Just(kind), Just(annotations), devices, Just(edits))
        })
        .prop_map(|(kind, annotations, devices, edits)| {
            let spec = Spec::new(kind.parse().unwrap(), devices).unwrap();
            let spec = spec.with_container_edits(edits).unwrap();
            spec.with_annotations(annotations).unwrap()
        })
}

fn device(name: String) -> impl Strategy<Value = Device> {
    let edits = edits().prop_filter("a device has edits", |edits| !edits.is_empty());
    (annotations(), edits).prop_map(move |(annotations, container_edits)| Device {
        name: DeviceName::new(name.clone()).unwrap(),
        annotations,
        container_edits,
    })
}

/// Texts with characters that YAML and JSON write differently.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        "[ -~]{1,12}",
        "[\\PC\n\t]{1,12}",
        vec(any::<char>(), 1..12).prop_map(String::from_iter),
        vec(odd(), 1..6).prop_map(String::from_iter),
        select(vec![
            "yes", "null", "~", "0", "0666", "1e3", "<<", "*a", "&a", "- a", "a: b", "#"
        ])
        .prop_map(str::to_owned),
    ]
}

/// Characters that readers of JSON and YAML treat differently, among ordinary ones.
fn odd() -> impl Strategy<Value = char> {
    select(vec![
        'a',
        ' ',
        '\0',
        '\u{1}',
        '\t',
        '\n',
        '\r',
        '\u{1b}',
        '\u{7f}',
        '\u{80}',
        '\u{85}',
        '\u{9f}',
        '\u{a0}',
        '\u{2028}',
        '\u{2029}',
        '\u{202e}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{fdd0}',
        '\u{feff}',
        '\u{fffd}',
        '\u{fffe}',
        '\u{ffff}',
        '\u{10000}',
        '\u{1fffe}',
        '\u{10ffff}',
        '"',
        '\\',
        '/',
        '\'',
    ])
}

fn annotations() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), prop_oneof![text(), Just(String::new())], 0..3)
}

fn env() -> impl Strategy<Value = Vec<String>> {
    vec(
        (text(), text()).prop_map(|(name, value)| format!("A{name}={value}")),
        0..3,
    )
}

fn edits() -> impl Strategy<Value = ContainerEdits> {
    let net = btree_map("[a-z0-9]{1,15}", Just(()), 0..3).prop_map(|names| {
        let device = |name: String| NetDevice {
            host_interface_name: name.clone(),
            name,
        };
        names.into_keys().map(device).collect()
    });
    let lists = (
        env(),
        vec(node(), 0..3),
        net,
        vec(hook(), 0..2),
        vec(mount(), 0..3),
    );
    (
        lists,
        option::of(rdt().prop_map(Box::new)),
        vec(any::<u32>(), 0..3),
    )
        .prop_map(
            |((env, device_nodes, net_devices, hooks, mounts), intel_rdt, additional_gids)| {
                ContainerEdits {
                    env,
                    device_nodes,
                    net_devices,
                    hooks,
                    mounts,
                    intel_rdt,
                    additional_gids,
                }
            },
        )
}

fn node() -> impl Strategy<Value = DeviceNode> {
    use DeviceType::{Block, Char, Fifo, Unbuffered};
    let device_type = option::of(select(vec![Block, Char, Fifo, Unbuffered]));
    let permissions = option::of(select(vec!["r", "w", "m", "rw", "rwm"]))
        .prop_map(|letters| letters.map(|letters| letters.parse::<Permissions>().unwrap()));
    let number = option::of(prop_oneof![any::<i64>(), 0..4096_i64]);
    let paths = (text(), option::of(text()));
    let ids = (
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        option::of(any::<u32>()),
    );
    (paths, device_type, number.clone(), number, permissions, ids).prop_map(
        |((path, host_path), device_type, major, minor, permissions, (file_mode, uid, gid))| {
            DeviceNode {
                path,
                host_path,
                device_type,
                major,
                minor,
                file_mode,
                permissions,
                uid,
                gid,
            }
        },
    )
}

fn hook() -> impl Strategy<Value = Hook> {
    (
        select(&Hook::NAMES[..]),
        text(),
        vec(text(), 0..3),
        env(),
        option::of(any::<i64>()),
    )
        .prop_map(|(name, path, args, env, timeout)| Hook {
            hook_name: name.to_owned(),
            path,
            args,
            env,
            timeout,
        })
}

fn mount() -> impl Strategy<Value = Mount> {
    (text(), text(), vec(text(), 0..3), option::of(text())).prop_map(
        |(host_path, container_path, options, fs_type)| Mount {
            host_path,
            container_path,
            options,
            fs_type,
        },
    )
}

fn rdt() -> impl Strategy<Value = IntelRdt> {
    let clos_id = prop_oneof![Just(String::new()), Just("/".to_owned()), "[a-z]{1,8}"];
    let schema = "[A-Z0-9:=;]{0,8}";
    let schemata = option::of(vec(text(), 0..3));
    (clos_id, schema, schema, schemata, any::<bool>()).prop_map(
        |(clos_id, l3_cache_schema, mem_bw_schema, schemata, enable_monitoring)| IntelRdt {
            clos_id,
            l3_cache_schema,
            mem_bw_schema,
            schemata,
            enable_monitoring,
        },
    )
}
