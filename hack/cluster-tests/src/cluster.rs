//! Access to the local cluster: every command goes through `hack/cluster.sh`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::output_of;

/// The components whose logs are printed when a test fails.
const COMPONENTS: [&str; 7] = [
    "apiserver",
    "scheduler",
    "controller-manager",
    "kubelet-1",
    "kubelet-2",
    "containerd-1",
    "containerd-2",
];

/// A handle to the running cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    script: PathBuf,
}

/// The namespace of a test; deleted when the test ends, even if it fails.
#[derive(Debug)]
pub struct Namespace {
    cluster: Cluster,
    /// Its name.
    pub name: String,
}

impl Cluster {
    /// The cluster that `hack/cluster.sh up` started.
    ///
    /// # Errors
    /// If its API server does not answer.
    pub fn connect() -> Result<Self> {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../cluster.sh");
        let cluster = Self { script };
        cluster
            .kubectl(&["get", "--raw", "/readyz"])
            .context("no cluster answers; start it and install the chart with hack/e2e.sh")?;
        Ok(cluster)
    }

    /// The path of the script, for processes that must run during the test.
    pub fn script_path(&self) -> &Path {
        &self.script
    }

    /// Runs `hack/cluster.sh ARGS` with `stdin` and returns its standard output.
    ///
    /// # Errors
    /// If it fails: what it printed.
    pub fn script(&self, args: &[&str], stdin: &str) -> Result<String> {
        output_of(Command::new(&self.script).args(args), stdin)
    }

    /// Runs `kubectl ARGS`.
    ///
    /// # Errors
    /// As [`Cluster::script`].
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.script(&[&["kubectl"], args].concat(), "")
    }

    /// Runs `kubectl ARGS`, which must fail with these words.
    ///
    /// # Errors
    /// If it succeeds, or fails for another reason.
    pub fn kubectl_refused(&self, args: &[&str], words: &str) -> Result<()> {
        let refused = self.kubectl(args).err();
        let refused = refused.with_context(|| format!("{args:?} has not failed"))?;
        let text = format!("{refused:#}");
        ensure!(text.contains(words), "not {words:?}: {text}");
        Ok(())
    }

    /// `kubectl ARGS -o json`, parsed.
    ///
    /// # Errors
    /// As [`Cluster::script`], or if the output is not JSON.
    pub fn json(&self, args: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(
            &self.kubectl(&[args, &["-o", "json"]].concat())?,
        )?)
    }

    /// Applies a manifest.
    ///
    /// # Errors
    /// As [`Cluster::script`].
    pub fn apply(&self, manifest: &str) -> Result<()> {
        self.script(&["kubectl", "apply", "-f", "-"], manifest)
            .map(drop)
    }

    /// Runs a shell command on `node1` or `node2` (`node` is the number), in the node's mount
    /// and network namespaces.
    ///
    /// # Errors
    /// As [`Cluster::script`].
    pub fn on_node(&self, node: u8, command: &str) -> Result<String> {
        self.script(
            &["exec", "--node", &node.to_string(), "sh", "-c", command],
            "",
        )
    }

    /// Runs a shell command in a pod. Returns whether it succeeded, and both output
    /// streams: some tests expect it to fail.
    ///
    /// # Errors
    /// Never for the command's own failure; only if `kubectl` cannot be run.
    pub fn in_pod(&self, namespace: &str, pod: &str, command: &str) -> Result<(bool, String)> {
        let command = format!("({command}) 2>&1; echo \"exit=$?\"");
        let output = self.kubectl(&["exec", "-n", namespace, pod, "--", "sh", "-c", &command])?;
        let (text, code) = output
            .rsplit_once("exit=")
            .context("the pod's shell printed no exit code")?;
        Ok((code.trim() == "0", text.to_owned()))
    }

    /// The items of the list that `kubectl get ARGS` prints.
    ///
    /// # Errors
    /// As [`Cluster::json`].
    pub fn items(&self, args: &[&str]) -> Result<Vec<Value>> {
        let list = self.json(&[&["get"], args].concat())?;
        Ok(list
            .get("items")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default())
    }

    /// The messages of the events about one object, newest last.
    ///
    /// # Errors
    /// As [`Cluster::json`].
    pub fn events_about(&self, namespace: &str, name: &str) -> Result<Vec<String>> {
        let selector = format!("involvedObject.name={name}");
        let events = self.items(&["events", "-n", namespace, "--field-selector", &selector])?;
        Ok(events
            .iter()
            .map(|event| {
                let field = |name: &str| {
                    event
                        .get(name)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned()
                };
                format!("{}: {}", field("reason"), field("message"))
            })
            .collect())
    }

    /// Prints pods, claims, slices, events and the tails of logs.
    #[expect(
        clippy::print_stderr,
        reason = "the report of a failing test goes to standard error"
    )]
    pub fn print_state(&self) {
        for args in [
            &[
                "get",
                "pods,resourceclaims,computedomains,resourceclaimtemplates",
                "-A",
                "-o",
                "wide",
            ][..],
            &["get", "resourceslices", "-o", "yaml"],
            &["get", "events", "-A", "--sort-by=.lastTimestamp"],
            &[
                "logs",
                "-n",
                "imex-dra",
                "-l",
                "app.kubernetes.io/name=imex-dra",
                "--all-containers",
                "--prefix",
                "--tail=60",
            ],
        ] {
            let output = self
                .kubectl(args)
                .unwrap_or_else(|error| format!("{error:#}"));
            eprintln!("---- kubectl {}\n{output}", args.join(" "));
        }
        for component in COMPONENTS {
            let log = self
                .script(&["logs", component], "")
                .unwrap_or_else(|error| format!("{error:#}"));
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines
                .get(lines.len().saturating_sub(30)..)
                .unwrap_or_default()
                .join("\n");
            eprintln!("---- {component}\n{tail}");
        }
    }
}

impl Namespace {
    /// Creates the namespace `name`, after one of an earlier run has been deleted.
    ///
    /// # Errors
    /// As [`Cluster::script`].
    pub fn create(cluster: &Cluster, name: &str) -> Result<Self> {
        cluster.kubectl(&[
            "delete",
            "namespace",
            name,
            "--ignore-not-found",
            "--wait",
            "--timeout=120s",
        ])?;
        cluster.kubectl(&["create", "namespace", name])?;
        // Pods need it. The controller manager creates it, which may still be starting after another test.
        cluster.kubectl(&[
            "wait",
            "serviceaccount/default",
            "--for=create",
            "--namespace",
            name,
            "--timeout=120s",
        ])?;
        Ok(Self {
            cluster: cluster.clone(),
            name: name.to_owned(),
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let ignored = self
            .cluster
            .kubectl(&["delete", "namespace", &self.name, "--wait=false"]);
        drop(ignored); // ignored: the next run's `create` waits for it, and reports errors
    }
}
