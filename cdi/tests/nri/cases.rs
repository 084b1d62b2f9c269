//! Generated containers, and plans for them.

use std::io;
use std::path::Path;

use fastrand::Rng;
use imex_cdi::{
    HostNode, HostNodes, NriAdjustment, NriContainer, NriRelease, Plan, QualifiedName, Registry,
};
use nri_plugin::api::{Container, User};
use serde_json::{Value, json};

use crate::random::Draw;

/// A container whose devices are planned twice: for its config, and for NRI.
pub(crate) struct Case {
    pub(crate) number: u64,
    /// The CDI spec of its two devices.
    pub(crate) spec: Value,
    pub(crate) config: Value,
    /// What the plan makes of the config.
    pub(crate) planned: Value,
    pub(crate) adjusted: NriAdjustment,
}

/// Without any node: all numbers are in the spec.
struct NoNodes;

impl HostNodes for NoNodes {
    fn lstat(&self, _: &str) -> io::Result<HostNode> {
        Err(io::ErrorKind::NotFound.into())
    }
}

impl Case {
    pub(crate) fn new(number: u64, scratch: &Path, release: NriRelease) -> Self {
        let mut rng = Rng::with_seed(number);
        let devices: Vec<Value> = ["one", "two"]
            .map(|name| json!({"name": name, "containerEdits": edits(&mut rng)}))
            .into();
        let spec = json!({
            "cdiVersion": "1.1.0", "kind": "a.b/c", "devices": devices,
            "containerEdits": {"env": ["SPEC=1"]},
        });
        std::fs::write(scratch.join("spec.json"), spec.to_string()).unwrap();
        let registry = Registry::load(&[scratch]);
        let names = ["a.b/c=two", "a.b/c=one"].map(|name| name.parse::<QualifiedName>().unwrap());

        let config = config(&mut rng, release);
        let mut planned = config.clone();
        let plan = Plan::new(&registry, &names, &config, &NoNodes).unwrap();
        plan.apply(&mut planned);

        let container = container(&config, release);
        let mut target = NriContainer::new(&container);
        let plan = Plan::new(&registry, &names, &target, &NoNodes).unwrap();
        plan.apply(&mut target);
        let adjusted = target.into_adjustment(release);
        Self {
            number,
            spec,
            config,
            planned,
            adjusted,
        }
    }
}

/// The part of NRI's message that a plan needs: the user, since 0.11.
fn container(config: &Value, release: NriRelease) -> Container {
    let user = &config["process"]["user"];
    let id = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
    let reported = User {
        uid: id(&user["uid"]),
        gid: id(&user["gid"]),
        additional_gids: user["additionalGids"]
            .as_array()
            .unwrap()
            .iter()
            .map(id)
            .collect(),
    };
    Container {
        user: (release >= NriRelease::Nri0_11).then_some(reported),
        ..Container::default()
    }
}

fn config(rng: &mut Rng, release: NriRelease) -> Value {
    let env: Vec<&str> = ["A=old", "B=old", "PATH=/bin"]
        .into_iter()
        .filter(|_| rng.bool())
        .collect();
    // Fields that an older release does not report are left out: they would be reported as lost.
    let (uid, gids) = match release {
        NriRelease::Nri0_11 => (rng.pick(&[0, 7]), rng.pick(&[&[][..], &[5]])),
        _ => (0, &[][..]),
    };
    let mut config = json!({
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": uid, "gid": uid, "additionalGids": gids}, "cwd": "/", "env": env},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/m/a", "source": "/old"}],
        "linux": {"resources": {"devices": [
            {"allow": false, "access": "rwm"},
            {"allow": true, "type": "c", "major": 1, "minor": 99, "access": "rwm"},
        ]}},
    });
    if rng.bool() {
        config["linux"]["devices"] =
            json!([{"path": "/dev/a", "type": "b", "major": 9, "minor": 9}]);
        config["hooks"] = json!({"poststop": [{"path": "/old"}]});
    }
    config
}

fn edits(rng: &mut Rng) -> Value {
    let mut edits = json!({"env": ["DEVICE=1"]});
    let env = ["A=1", "A=2", "B=", "C=x=y", "-A=1"];
    edits["env"] = rng.several(1..5, |rng| rng.pick(&env)).into();
    edits["deviceNodes"] = rng.several(0..4, node).into();
    edits["mounts"] = rng.several(0..4, mount).into();
    edits["hooks"] = rng.several(0..3, hook).into();
    edits["additionalGids"] = rng.several(0..3, |rng| rng.pick(&[0, 5, 6])).into();
    if rng.once_in(3) {
        let name = rng.pick(&["eth0", "eth1", "-eth2"]);
        edits["netDevices"] =
            json!([{"hostInterfaceName": name, "name": rng.pick(&["net0", "net1"])}]);
    }
    if rng.once_in(3) {
        let rdt = json!({"closID": "x", "schemata": ["L3:0=f", "MB:0=70"], "enableMonitoring": rng.bool()});
        let old = json!({"closID": "y", "l3CacheSchema": "L3:0=f", "memBwSchema": "MB:0=70"});
        edits["intelRdt"] = rng.pick(&[rdt, old]);
    }
    edits
}

fn node(rng: &mut Rng) -> Value {
    let kind = rng.pick(&["c", "c", "c", "b", "u", "p"]);
    let path = rng.pick(&["/dev/a", "/dev/b", "/dev/c", "-dev"]);
    let path = match kind {
        "u" | "p" => "/dev/other",
        _ => path,
    };
    let mut node = json!({"path": path, "type": kind});
    if kind != "p" {
        node["major"] = rng.pick(&[1, 2]).into();
        node["minor"] = rng.pick(&[0, 3]).into();
    }
    let permissions = rng.pick(&["", "r", "rw", "rw", "rwm", "wm"]);
    node["permissions"] = permissions.into();
    if rng.bool() {
        node["fileMode"] = rng.pick(&[0o666, 0o660]).into();
    }
    if rng.bool() {
        node["uid"] = 3.into();
        node["gid"] = 4.into();
    }
    node
}

fn mount(rng: &mut Rng) -> Value {
    let target = rng.pick(&["/m", "/m/a", "/m/a/b", "/x", "-m"]);
    let mut mount = json!({"hostPath": rng.pick(&["/h1", "/h2"]), "containerPath": target});
    if rng.bool() {
        mount["type"] = "bind".into();
        mount["options"] = json!(["ro", "rbind", "rprivate"]);
    }
    mount
}

fn hook(rng: &mut Rng) -> Value {
    let moment = rng.pick(&imex_cdi::Hook::NAMES);
    let mut hook = json!({"hookName": moment, "path": "/h"});
    if rng.bool() {
        hook["args"] = json!(["h", "x"]);
        hook["env"] = json!(["A=b"]);
        hook["timeout"] = 5.into();
    }
    hook
}
