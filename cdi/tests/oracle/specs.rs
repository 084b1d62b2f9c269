//! CDI spec files, good and bad.

use std::path::Path;

use fastrand::Rng;
use imex_cdi::Hook;
use serde_json::{Map, Value, json};

use crate::random::Draw;
use crate::yaml;

pub(crate) const KINDS: [&str; 4] = ["a.b/cd", "a.b/ce", "ven/cd.e", "v-1/c_2"];
pub(crate) const DEVICES: [&str; 4] = ["x", "y", "0", "z:1.2_3"];

const VERSIONS: [&str; 11] = [
    "0.1.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "v1.1.0", "1.2.0",
    "0.5",
];

/// The text of a file named `name`; most are good.
pub(crate) fn file(rng: &mut Rng, name: &str, paths: &[String]) -> String {
    let mut spec = if rng.once_in(40) {
        declares_little(rng)
    } else {
        spec(rng, paths)
    };
    if rng.once_in(8) {
        damage(rng, &mut spec);
    }
    if rng.once_in(100) {
        spec["kind"] = rng.pick(&[json!("a/cd"), json!("ab/c")]);
    }
    let text = if Path::new(name).extension() == Some("yaml".as_ref()) && rng.bool() {
        yaml::block(&spec)
    } else {
        spec.to_string()
    };
    if rng.once_in(20) {
        let end = rng.usize(..text.len());
        return text[..end].to_owned();
    }
    text
}

fn spec(rng: &mut Rng, paths: &[String]) -> Value {
    let version = if rng.once_in(6) {
        rng.pick(&VERSIONS)
    } else {
        "1.1.0"
    };
    let mut names = DEVICES.to_vec();
    rng.shuffle(&mut names);
    names.truncate(rng.usize(1..4));
    let devices: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "containerEdits": edits(rng, paths, true)}))
        .collect();
    let mut spec = json!({"cdiVersion": version, "kind": rng.pick(&KINDS), "devices": devices});
    if rng.bool() {
        spec["containerEdits"] = edits(rng, paths, false);
    }
    if rng.once_in(10) {
        spec["annotations"] = json!({"vendor.example/note": "n"});
    }
    if rng.once_in(10) {
        spec["devices"][0]["annotations"] = json!({"note": "n"});
    }
    spec
}

/// A spec of version 0.3.0 with a mount's type, which needs 0.4.0, in one of
/// its devices.
fn declares_little(rng: &mut Rng) -> Value {
    let plain = json!({"env": ["A=1"]});
    let typed = json!({"mounts": [{"hostPath": "/", "containerPath": "/a", "type": "bind"}]});
    let mut edits = [plain, typed];
    rng.shuffle(&mut edits);
    let [x, y] = edits;
    json!({"cdiVersion": "0.3.0", "kind": rng.pick(&KINDS), "devices": [
        {"name": "x", "containerEdits": x},
        {"name": "y", "containerEdits": y},
    ]})
}

/// Makes a spec invalid, as a rule.
fn damage(rng: &mut Rng, spec: &mut Value) {
    type Damage = fn(&mut Value);
    let damages: [Damage; 16] = [
        |spec| spec["kind"] = json!("no-slash"),
        |spec| spec["kind"] = json!("a./b"),
        |spec| spec["devices"] = json!([]),
        |spec| spec["devices"][0]["name"] = json!("-x"),
        |spec| spec["devices"][0]["containerEdits"] = json!({}),
        |spec| spec["unknownKey"] = json!(1),
        |spec| spec["devices"][0]["containerEdits"]["unknownKey"] = json!(1),
        |spec| spec["devices"] = json!({"name": "x"}),
        |spec| spec["containerEdits"] = json!({"env": ["NOTHING"]}),
        |spec| spec["containerEdits"] = json!({"deviceNodes": [{"path": ""}]}),
        |spec| spec["containerEdits"] = json!({"deviceNodes": [{"path": "/x", "type": "x"}]}),
        |spec| {
            spec["containerEdits"] = json!({"deviceNodes": [{"path": "/x", "permissions": "x"}]});
        },
        |spec| spec["containerEdits"] = json!({"hooks": [{"hookName": "prestop", "path": "/x"}]}),
        |spec| spec["containerEdits"] = json!({"intelRdt": {"closID": "a/b"}}),
        |spec| {
            let twin = json!({"hostInterfaceName": "e", "name": "n"});
            spec["containerEdits"] = json!({"netDevices": [twin, twin]});
        },
        |spec| {
            let device = spec["devices"][0].clone();
            spec["devices"] = json!([device, device]);
        },
    ];
    rng.pick(&damages)(spec);
}

fn edits(rng: &mut Rng, paths: &[String], must: bool) -> Value {
    let mut edits = Map::new();
    let mut put = |key: &str, items: Vec<Value>| {
        if !items.is_empty() {
            edits.insert(key.to_owned(), items.into());
        }
    };
    let least = usize::from(must);
    put(
        "env",
        rng.several(least..3, |rng| {
            json!(format!(
                "{}={}",
                rng.pick(&["A", "B", "C", "PATH"]),
                rng.pick(&["", "1", "x=y"])
            ))
        }),
    );
    put("deviceNodes", rng.several(0..3, |rng| node(rng, paths)));
    put("mounts", rng.several(0..3, mount));
    if rng.once_in(3) {
        put("hooks", rng.several(0..3, hook));
    }
    if rng.once_in(4) {
        put(
            "additionalGids",
            rng.several(0..4, |rng| json!(rng.u32(0..4))),
        );
    }
    if rng.once_in(5) {
        let [host, name] = [rng.u32(0..3), rng.u32(0..3)];
        put(
            "netDevices",
            vec![json!({"hostInterfaceName": format!("h{host}"), "name": format!("c{name}")})],
        );
    }
    if rng.once_in(6) {
        edits.insert("intelRdt".to_owned(), rdt(rng));
    }
    Value::Object(edits)
}

/// Members with what `make` makes, each left out half the time.
fn optional(rng: &mut Rng, into: &mut Value, members: &[(&str, &[Value])]) {
    for (key, choices) in members {
        if rng.bool() {
            into[*key] = rng.pick(choices);
        }
    }
}

fn node(rng: &mut Rng, paths: &[String]) -> Value {
    let mut node = json!({"path": rng.pick(paths)});
    let others: Vec<Value> = paths.iter().map(|path| json!(path)).collect();
    // As a rule a node that works, since one that does not ends the case.
    if !rng.once_in(8) {
        node["type"] = json!(rng.pick(&["c", "b", "c", "u"]));
        node["major"] = json!(rng.pick(&[1, 7, 511]));
    }
    optional(
        rng,
        &mut node,
        &[
            ("minor", &[json!(0), json!(3), json!(1_048_575)]),
            ("fileMode", &[json!(0), json!(438), json!(384)]),
            (
                "permissions",
                &[
                    json!(""),
                    json!("r"),
                    json!("rw"),
                    json!("rwm"),
                    json!("wr"),
                    json!("mm"),
                ],
            ),
            ("uid", &[json!(0), json!(5)]),
            ("gid", &[json!(0), json!(6)]),
        ],
    );
    if rng.once_in(4) {
        node["hostPath"] = rng.pick(&others);
    }
    if rng.once_in(8) {
        node["type"] = json!(rng.pick(&["c", "b", "p", "u", ""]));
    }
    if rng.once_in(8) {
        node["major"] = json!(0);
    }
    node
}

fn mount(rng: &mut Rng) -> Value {
    let targets = [
        "/",
        "/a",
        "/a/b",
        "/a//b/../b/",
        "/a/b/c",
        "/proc",
        "relative/x",
        "/..",
        "./y",
    ];
    let mut mount =
        json!({"hostPath": rng.pick(&["/src", "/"]), "containerPath": rng.pick(&targets)});
    optional(
        rng,
        &mut mount,
        &[
            ("type", &[json!("bind"), json!("tmpfs"), json!("")]),
            ("options", &[json!(["ro", "rbind"]), json!([])]),
        ],
    );
    mount
}

fn hook(rng: &mut Rng) -> Value {
    let mut hook = json!({"hookName": rng.pick(&Hook::NAMES), "path": rng.pick(&["/h", "h"])});
    optional(
        rng,
        &mut hook,
        &[
            ("args", &[json!(["h", "--x"]), json!([])]),
            ("env", &[json!(["A=b"]), json!([])]),
            ("timeout", &[json!(0), json!(5), json!(-1)]),
        ],
    );
    hook
}

fn rdt(rng: &mut Rng) -> Value {
    let mut rdt = json!({});
    optional(
        rng,
        &mut rdt,
        &[
            ("closID", &[json!("class"), json!("/"), json!("")]),
            ("l3CacheSchema", &[json!("L3:0=f")]),
            ("memBwSchema", &[json!("MB:0=50")]),
            ("schemata", &[json!(["L3:0=1", "MB:0=9"]), json!([])]),
            ("enableMonitoring", &[json!(true), json!(false)]),
        ],
    );
    rdt
}
