use std::cell::LazyCell;
use std::io;
use std::path::Path;

use imex_cdi::{
    Change, DeviceType, HostDevice, HostNode, HostNodes, OciConfig, Plan, QualifiedName, Registry,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::error::is_helpful;

/// The separator of an input's two parts; neither part contains it.
const BETWEEN: u8 = 0;

/// Edits of every kind, for inputs that are only a config.
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

/// Checks that all of a spec's devices get into a container's config, or none: a plan
/// is applied without a panic, changes only what edits may change, and has the same
/// result for the typed config. An input is a spec, a NUL and a config, or a config
/// for edits of every kind.
///
/// # Panics
///
/// If one of these properties does not hold.
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
    // An unknown name keeps all others out.
    if let Ok(unknown) = "no.such/kind=device".parse() {
        let names = [names, vec![unknown]].concat();
        assert!(Plan::new(&registry, &names, &config, &Host).is_err());
    }
}

fn is_applied(plan: &Plan, before: &Value) {
    let mut after = before.clone();
    plan.apply(&mut after);
    if plan.steps().is_empty() {
        assert_eq!(after, *before, "nothing was planned");
    }
    assert!(after.facts().is_ok(), "the config is no longer valid");
    assert_eq!(
        untouched(before.clone()),
        untouched(after.clone()),
        "a part that no edit names has changed"
    );
    for step in plan.steps() {
        assert!(!step.change.to_string().is_empty());
        assert!(!step.source.field.is_empty());
        // A later edit may replace any but these.
        if let Change::AddGid(gid) = step.change {
            let gids = after.pointer("/process/user/additionalGids");
            let gids = gids.and_then(Value::as_array);
            assert!(gids.is_some_and(|gids| gids.contains(&gid.into())));
        }
    }
    is_applied_to_the_type(plan, before, &after);
}

/// Checks that the document and OCI's type agree if the type can represent the whole document.
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
        "the typed config differs"
    );
}

/// The config without the parts that an edit may change, and without sections that
/// are then empty.
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
    // Edits add missing sections, with their required members only.
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

/// A host with one CDI file, which has this text.
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
