use std::cell::LazyCell;
use std::io;
use std::path::Path;

use imex_cdi::{
    Change, DeviceType, HostDevice, HostNode, HostNodes, OciConfig, Plan, QualifiedName, Registry,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::error::is_helpful;

/// What stands between the two parts of an input: no text of either has it.
const BETWEEN: u8 = 0;

/// Edits of every kind, for inputs that are a config alone.
const ALL_EDITS: &[u8] = br#"{"cdiVersion":"1.1.0","kind":"a.b/c","devices":[
{"name":"one","containerEdits":{"deviceNodes":[
{"path":"/dev/full","type":"c","major":235,"minor":0,"fileMode":438,"permissions":"rw"},
{"path":"/dev/node"},{"path":"/dev/fifo","type":"p"}],"env":["A=1","PATH=/bin"]}},
{"name":"two","containerEdits":{"hooks":[{"hookName":"createContainer","path":"/x","args":["x"],"timeout":1}],
"mounts":[{"hostPath":"/a","containerPath":"/proc/a","options":["ro"]},{"hostPath":"/b","containerPath":"/b"}],
"netDevices":[{"hostInterfaceName":"eth0","name":"net1"}],"additionalGids":[0,7],
"intelRdt":{"closID":"c","l3CacheSchema":"L3:0=f","enableMonitoring":true}}}],
"containerEdits":{"env":["ALL=1"],"hooks":[{"hookName":"prestart","path":"/y"}]}}"#;

/// A host with a device at `/dev/node`, a pipe at `/dev/fifo`, and a file at
/// `/dev/file`.
struct Host;

/// The devices of a spec get into a container's config or none does: a plan
/// that is made is applied without a panic, changes what edits may change and
/// nothing else, and does the same to the typed config. An input is a spec,
/// a NUL and a config, or a config for edits of every kind.
///
/// # Panics
///
/// If one of that does not hold.
pub fn config(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == BETWEEN);
    let first = parts.next().unwrap_or_default();
    let (spec, config) = parts
        .next()
        .map_or((ALL_EDITS, first), |config| (first, config));
    let Ok(config) = serde_json::from_slice::<Value>(config) else {
        return;
    };
    let registry = registry_of(spec);
    let names: Vec<QualifiedName> = registry.devices().map(|device| device.name()).collect();
    match Plan::new(&registry, &names, &config, &Host) {
        Ok(plan) => is_applied(&plan, &config),
        Err(error) => is_helpful(&error, error.code(), error.hint()),
    }
    // A name that nobody has keeps the others out.
    if let Ok(nobody) = "nobody/has=this".parse() {
        let names = [names, vec![nobody]].concat();
        assert!(Plan::new(&registry, &names, &config, &Host).is_err());
    }
}

fn is_applied(plan: &Plan, before: &Value) {
    let mut after = before.clone();
    plan.apply(&mut after);
    if plan.steps().is_empty() {
        assert_eq!(after, *before, "nothing was planned");
    }
    assert!(after.facts().is_ok(), "the config is none any more");
    assert_eq!(
        untouched(before.clone()),
        untouched(after.clone()),
        "what no edit names has changed"
    );
    for step in plan.steps() {
        assert!(!step.change.to_string().is_empty());
        assert!(!step.source.field.is_empty());
        // A later one may replace any but these.
        if let Change::AddGid(gid) = step.change {
            let gids = after.pointer("/process/user/additionalGids");
            let gids = gids.and_then(Value::as_array);
            assert!(gids.is_some_and(|gids| gids.contains(&gid.into())));
        }
    }
    is_applied_to_the_type(plan, before, &after);
}

/// Where OCI's type holds all that the document says, the two agree.
fn is_applied_to_the_type(plan: &Plan, before: &Value, after: &Value) {
    let Ok(mut typed) = serde_json::from_value::<oci_spec::runtime::Spec>(before.clone()) else {
        return;
    };
    if serde_json::to_value(&typed).ok().as_ref() != Some(before) {
        return;
    }
    plan.apply(&mut typed);
    assert_eq!(
        serde_json::to_value(&typed).ok().as_ref(),
        Some(after),
        "the typed config became another"
    );
}

/// The config without what an edit may change, and without the sections that
/// then hold nothing.
fn untouched(mut config: Value) -> Value {
    for (section, key) in [
        ("/process/user", "additionalGids"),
        ("/process", "env"),
        ("/linux/resources", "devices"),
        ("/linux", "devices"),
        ("/linux", "netDevices"),
        ("/linux", "intelRdt"),
        ("", "mounts"),
        ("", "hooks"),
    ] {
        if let Some(Value::Object(members)) = config.pointer_mut(section) {
            members.remove(key);
        }
    }
    // A section that was missing is made, with the least that is valid.
    for (section, key) in [
        ("/process", "user"),
        ("", "process"),
        ("/linux", "resources"),
        ("", "linux"),
    ] {
        if let Some(Value::Object(members)) = config.pointer_mut(section)
            && members.get(key).is_some_and(says_nothing)
        {
            members.remove(key);
        }
    }
    config
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.iter().all(|(key, value)| {
            let least = [("cwd", "".into()), ("uid", 0.into()), ("gid", 0.into())];
            least.contains(&(key, value.clone())) || says_nothing(value)
        }),
        _ => false,
    }
}

/// A host whose one CDI file has this text.
fn registry_of(spec: &[u8]) -> Registry {
    thread_local! {
        static SCRATCH: LazyCell<Option<TempDir>> = LazyCell::new(|| tempfile::tempdir().ok());
    }
    SCRATCH.with(|scratch| {
        let nowhere = Path::new("/nonexistent");
        let dir = scratch.as_ref().map_or(nowhere, TempDir::path);
        let written = std::fs::write(dir.join("fuzz.yaml"), spec);
        assert!(written.is_ok(), "cannot write a file: {written:?}");
        Registry::load(&[dir])
    })
}

impl HostNodes for Host {
    fn lstat(&self, path: &str) -> io::Result<HostNode> {
        let device = |device_type, major, minor| {
            HostNode::Device(HostDevice {
                device_type,
                major,
                minor,
                mode: 0o640,
            })
        };
        match path {
            "/dev/node" => Ok(device(DeviceType::Char, 1, 3)),
            "/dev/fifo" => Ok(device(DeviceType::Fifo, 0, 0)),
            "/dev/file" => Ok(HostNode::NotADevice),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
