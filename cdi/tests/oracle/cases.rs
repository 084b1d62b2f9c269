//! A generated host and container.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use imex_cdi::{OsHost, Plan, PlanError, QualifiedName, Registry};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde_json::{Value, json};

use crate::answer::{Answer, Outcome, pruned};
use crate::random::Draw;
use crate::specs;

/// Nodes of the host that the cases share.
pub(crate) struct Nodes {
    paths: Vec<String>,
    /// Whether there are device nodes among them, which root alone can make.
    pub(crate) devices: bool,
}

/// A host with CDI files, a container, and the names of the devices it requests.
pub(crate) struct Case {
    pub(crate) number: u64,
    dirs: Vec<PathBuf>,
    pub(crate) names: Vec<String>,
    pub(crate) config: Value,
}

const FILES: [&str; 9] = [
    "a.json",
    "b.json",
    "c.yaml",
    "d.yaml",
    ".hidden.json",
    "e.yml",
    "f.JSON",
    "g.json.tmp",
    "h.yaml",
];

impl Nodes {
    pub(crate) fn make(dir: &Path) -> Self {
        std::fs::create_dir(dir).unwrap();
        let path = |name: &str| dir.join(name);
        let node = |name: &str, kind, mode: u32, numbers: (u64, u64)| {
            let numbers = makedev(numbers.0, numbers.1);
            let made = mknod(&path(name), kind, Mode::from_bits_truncate(0o600), numbers);
            let chmod = nix::sys::stat::fchmodat(
                nix::fcntl::AT_FDCWD,
                &path(name),
                Mode::from_bits_truncate(mode),
                nix::sys::stat::FchmodatFlags::FollowSymlink,
            );
            made.is_ok() && chmod.is_ok()
        };
        assert!(node("fifo", SFlag::S_IFIFO, 0o640, (0, 0)));
        let devices = node("null", SFlag::S_IFCHR, 0o666, (1, 3))
            && node("sticky", SFlag::S_IFCHR, 0o1622, (511, 1_048_575))
            && node("block", SFlag::S_IFBLK, 0o660, (7, 0));
        std::fs::write(path("file"), "").unwrap();
        symlink(path("null"), path("link")).unwrap();
        let names = ["fifo", "null", "sticky", "block", "file", "link", "missing"];
        Self {
            paths: names
                .iter()
                .map(|name| path(name).display().to_string())
                .collect(),
            devices,
        }
    }
}

impl Case {
    pub(crate) fn new(number: u64, scratch: &Path, nodes: &Nodes) -> Self {
        let rng = &mut Rng::with_seed(number);
        let root = scratch.join(number.to_string());
        let mut dirs: Vec<PathBuf> = ["0", "1", "2"].map(|dir| root.join(dir)).into();
        dirs.truncate(rng.usize(1..4));
        for dir in &dirs {
            if !rng.once_in(10) {
                std::fs::create_dir_all(dir).unwrap();
                write_files(rng, dir, nodes);
            }
        }
        if rng.once_in(20) {
            dirs.push(dirs[0].clone());
        }
        let names = names(rng, &dirs);
        let config = config(rng, &nodes.paths);
        Self {
            number,
            dirs,
            names,
            config,
        }
    }

    /// The case, and the same with each name once.
    pub(crate) fn requests(&self) -> [Value; 2] {
        let mut seen = BTreeSet::new();
        let once: Vec<_> = self
            .names
            .iter()
            .filter(|name| seen.insert(*name))
            .collect();
        let dirs = &self.dirs;
        [
            json!({"dirs": dirs, "names": self.names, "config": self.config}),
            json!({"dirs": dirs, "names": once, "config": self.config}),
        ]
    }

    /// What this crate answers.
    pub(crate) fn answer(&self) -> Answer {
        let registry = Registry::load(&self.dirs);
        let bad = registry.files().iter().filter(|file| file.spec.is_err());
        let conflicts = registry.conflicts().flat_map(|conflict| conflict.files);
        Answer {
            devices: registry
                .devices()
                .map(|device| device.name().to_string())
                .collect(),
            bad_files: bad.chain(conflicts).map(|file| file.path.clone()).collect(),
            outcome: self.outcome(&registry),
        }
    }

    fn outcome(&self, registry: &Registry) -> Outcome {
        let names: Vec<QualifiedName> = self.names.iter().map(|n| n.parse().unwrap()).collect();
        let mut config = self.config.clone();
        match Plan::new(registry, &names, &config, &OsHost::new("/")) {
            Ok(plan) => {
                #[cfg(feature = "oci")]
                self.check_typed(&plan);
                plan.apply(&mut config);
                Outcome::Config(pruned(config))
            }
            Err(PlanError::Unresolved(names)) => {
                Outcome::Unresolved(names.iter().map(|why| why.name().to_string()).collect())
            }
            Err(_) => Outcome::Refused,
        }
    }

    /// The other form of a config becomes the same.
    #[cfg(feature = "oci")]
    fn check_typed(&self, plan: &Plan) {
        use oci_spec::runtime::Spec;
        let mut json = self.config.clone();
        let mut typed: Spec = serde_json::from_value(json.clone()).unwrap();
        plan.apply(&mut typed);
        plan.apply(&mut json);
        let json: Spec = serde_json::from_value(json).unwrap();
        assert_eq!(typed, json, "case {}", self.number);
    }

    /// Whether this crate refuses a file with the error `code`.
    pub(crate) fn has_file_refused_as(&self, code: &str) -> bool {
        let registry = Registry::load(&self.dirs);
        let mut errors = registry
            .files()
            .iter()
            .filter_map(|file| file.spec.as_ref().err());
        errors.any(|error| error.code() == code)
    }

    /// The whole case, for people.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("  names {:?}\n  config {}\n", self.names, self.config);
        for dir in &self.dirs {
            for entry in std::fs::read_dir(dir).into_iter().flatten() {
                let path = entry.unwrap().path();
                let content = std::fs::read_to_string(&path).unwrap_or_default();
                writeln!(text, "  {}:\n{content}", path.display()).unwrap();
            }
        }
        text
    }
}

fn write_files(rng: &mut Rng, dir: &Path, nodes: &Nodes) {
    for name in rng.several(1..5, |rng| rng.pick(&FILES)) {
        let text = specs::file(rng, name, &nodes.paths);
        std::fs::write(dir.join(name), text).unwrap();
    }
    if rng.once_in(10) {
        let text = specs::file(rng, "s.json", &nodes.paths);
        std::fs::create_dir(dir.join("sub")).unwrap();
        std::fs::write(dir.join("sub/s.json"), text).unwrap();
    }
    if rng.once_in(20) {
        symlink("nowhere", dir.join("dangling.json")).unwrap();
    }
    if rng.once_in(20) {
        std::fs::create_dir(dir.join("dir.json")).unwrap();
    }
}

/// As a rule names that resolve.
fn names(rng: &mut Rng, dirs: &[PathBuf]) -> Vec<String> {
    let registry = Registry::load(dirs);
    let known: Vec<String> = registry
        .devices()
        .map(|device| device.name().to_string())
        .collect();
    let mut names = rng.several(1..4, |rng| {
        if known.is_empty() || rng.once_in(20) {
            format!("{}={}", rng.pick(&specs::KINDS), rng.pick(&specs::DEVICES))
        } else {
            rng.pick(&known)
        }
    });
    if rng.once_in(8) {
        names.push(names[0].clone());
    }
    names
}

fn config(rng: &mut Rng, paths: &[String]) -> Value {
    let mut config = json!({"ociVersion": "1.2.0", "root": {"path": "rootfs"}});
    if !rng.once_in(5) {
        config["process"] = process(rng);
    }
    if !rng.once_in(5) {
        config["linux"] = linux(rng, paths);
    }
    if rng.bool() {
        let targets = ["/proc", "/", "/a/b/c", "/a", "/a/b", "/dev"];
        config["mounts"] = rng
            .several(
                0..4,
                |rng| json!({"destination": rng.pick(&targets), "source": "old"}),
            )
            .into();
    }
    if rng.once_in(4) {
        config["hooks"] =
            json!({rng.pick(&["prestart", "poststop", "createRuntime"]): [{"path": "/old"}]});
    }
    if rng.once_in(40) {
        let bad = [
            ("process", json!([])),
            ("linux", json!({"devices": {}})),
            ("mounts", json!("x")),
            ("hooks", json!({"prestart": [1]})),
            ("process", json!({"user": {"uid": -1}, "cwd": ""})),
        ];
        let (key, value) = rng.pick(&bad);
        config[key] = value;
    }
    config
}

fn process(rng: &mut Rng) -> Value {
    let mut user = json!({"uid": rng.pick(&[0, 0, 1000]), "gid": rng.pick(&[0, 5])});
    if rng.once_in(4) {
        user["additionalGids"] = json!([2, 9]);
    }
    let mut process = json!({"user": user, "cwd": "/", "args": ["sh"]});
    if rng.bool() {
        process["env"] = rng
            .several(0..4, |rng| {
                rng.pick(&["PATH=/bin", "A=old", "A=older", "B", "Z=1"])
            })
            .into();
    }
    process
}

fn linux(rng: &mut Rng, paths: &[String]) -> Value {
    let mut linux = json!({"cgroupsPath": "/x"});
    if rng.bool() {
        linux["devices"] = rng
            .several(
                0..3,
                |rng| json!({"path": rng.pick(paths), "type": "c", "major": 9, "minor": 9}),
            )
            .into();
    }
    if rng.bool() {
        linux["resources"] = json!({"devices": [{"allow": false, "access": "rwm"}]});
    }
    if rng.once_in(4) {
        linux["intelRdt"] = json!({"closID": "old", "l3CacheSchema": "L3:0=old"});
    }
    if rng.once_in(4) {
        linux["netDevices"] = json!({"h0": {"name": "old"}, "h9": {}});
    }
    linux
}
