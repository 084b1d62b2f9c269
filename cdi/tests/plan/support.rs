//! A host with CDI files, and device nodes that need no root to make.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use imex_cdi::{HostNode, HostNodes, Plan, PlanError, QualifiedName, Registry};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Two directories of CDI files, `low` and `high`, and nodes.
pub(crate) struct Host {
    scratch: TempDir,
    nodes: BTreeMap<&'static str, HostNode>,
}

impl Host {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        for dir in ["low", "high"] {
            std::fs::create_dir(scratch.path().join(dir)).unwrap();
        }
        Self {
            scratch,
            nodes: BTreeMap::new(),
        }
    }

    /// A host with one file that defines `a.b/c=d` with `edits`.
    pub(crate) fn with_device(edits: &Value) -> Self {
        Self::new().file(
            "low/one.json",
            "a.b/c",
            &json!([device("d", edits)]),
            &json!({}),
        )
    }

    pub(crate) fn file(self, path: &str, kind: &str, devices: &Value, edits: &Value) -> Self {
        let spec = json!({
            "cdiVersion": "1.1.0", "kind": kind, "devices": devices, "containerEdits": edits,
        });
        std::fs::write(self.path(path), spec.to_string()).unwrap();
        self
    }

    pub(crate) fn node(mut self, path: &'static str, node: HostNode) -> Self {
        self.nodes.insert(path, node);
        self
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    pub(crate) fn plan(&self, names: &[&str], config: &Value) -> Result<Plan, PlanError> {
        let registry = Registry::load(&[self.path("low"), self.path("high")]);
        Plan::new(&registry, &qualified(names), config, self)
    }

    /// `config` with the devices `names`.
    pub(crate) fn inject(&self, names: &[&str], config: &Value) -> Value {
        let mut config = config.clone();
        self.plan(names, &config).unwrap().apply(&mut config);
        config
    }
}

impl HostNodes for Host {
    fn lstat(&self, path: &str) -> io::Result<HostNode> {
        let node = self.nodes.get(path).copied();
        node.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

pub(crate) fn device(name: &str, edits: &Value) -> Value {
    json!({"name": name, "containerEdits": edits})
}

pub(crate) fn qualified(names: &[&str]) -> Vec<QualifiedName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}
