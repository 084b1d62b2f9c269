//! The API server's enforcement of the CRD: defaults, limits, the rule, pruning, the status subresource.
//! The Go driver's CRD gives the same answers, except for our additions. Both are installed in separate
//! API groups, so that no controller and no other test sees these objects.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use cluster_tests::{Cluster, Namespace};
use serde_json::{Value, json};

const OURS: &str = "ours.imex.test";
const GO: &str = "go.imex.test";

/// The file of each CRD, and its group in this test.
const CRDS: [(&str, &str); 2] = [
    (
        "deployments/helm/imex-dra/crd/resource.nvidia.com_computedomains.yaml",
        OURS,
    ),
    ("controller/api/fixtures/computedomains-go.yaml", GO),
];

/// The steps of each list.
const ANSWERS: &str = include_str!("fixtures/crd-answers.yaml");

/// An installed CRD. Deleted with its objects when the test ends.
struct Crd {
    cluster: Cluster,
    group: &'static str,
    namespace: String,
}

// === impl Crd ===

impl Crd {
    fn install(namespace: &Namespace, file: &str, group: &'static str) -> Result<Self> {
        let crd = Self {
            cluster: Cluster::connect()?,
            group,
            namespace: namespace.name.clone(),
        };
        crd.delete()?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let manifest = std::fs::read_to_string(root.join(file)).context(file.to_owned())?;
        let manifest = manifest.replace("resource.nvidia.com", group);
        crd.cluster.apply(&manifest)?;
        let resource = format!("crd/{}", crd.resource());
        let established = "--for=condition=Established";
        crd.cluster
            .kubectl(&["wait", established, "--timeout=60s", &resource])?;
        Ok(crd)
    }

    fn resource(&self) -> String {
        format!("computedomains.{}", self.group)
    }

    fn delete(&self) -> Result<()> {
        let delete = ["delete", "crd", &self.resource(), "--ignore-not-found"];
        self.cluster.kubectl(&delete).map(drop)
    }

    /// Creates an object with these fields. `validation` is the server's treatment of unknown fields.
    fn create(&self, name: &str, fields: &Value, validation: &str) -> Result<Value> {
        let mut object = json!({
            "apiVersion": format!("{}/v1beta1", self.group),
            "kind": "ComputeDomain",
            "metadata": { "name": name, "namespace": self.namespace },
        });
        for (name, value) in fields.as_object().context("not an object")? {
            object
                .as_object_mut()
                .context("not an object")?
                .insert(name.clone(), value.clone());
        }
        let validate = format!("--validate={validation}");
        let create = ["kubectl", "create", &validate, "-o", "json", "-f", "-"];
        let created = self.cluster.script(&create, &object.to_string())?;
        Ok(serde_json::from_str(&created)?)
    }

    /// Sends a JSON patch if `patch` is a list, otherwise a merge patch; for the object if `subresource` is empty.
    fn patch(&self, name: &str, subresource: &str, patch: &Value) -> Result<Value> {
        let kind = if patch.is_array() { "json" } else { "merge" };
        self.cluster.json(&[
            "patch",
            &self.resource(),
            name,
            &format!("--namespace={}", self.namespace),
            &format!("--subresource={subresource}"),
            &format!("--type={kind}"),
            &format!("--patch={patch}"),
        ])
    }

    /// Runs the steps of a list in their order.
    fn run(&self, list: &str) -> Result<()> {
        let lists: Value = serde_saphyr::from_str(ANSWERS)?;
        let steps = lists.get(list).and_then(Value::as_array);
        for (number, step) in steps.context(list.to_owned())?.iter().enumerate() {
            let name = match step.get("on").and_then(Value::as_str) {
                Some(name) => name.to_owned(),
                None => format!("d{number}"),
            };
            self.request(&name, step)
                .and_then(|answer| check(step, answer))
                .with_context(|| format!("{}: {list}: {step}", self.group))?;
        }
        Ok(())
    }

    /// The server's answer to a step's request.
    fn request(&self, name: &str, step: &Value) -> Result<Result<Value>> {
        let requests = ["create", "create-strictly", "patch", "status-patch"];
        let request = requests
            .iter()
            .find_map(|kind| Some((*kind, step.get(kind)?)));
        Ok(match request.context("no request")? {
            ("create", fields) => self.create(name, fields, "ignore"),
            ("create-strictly", fields) => self.create(name, fields, "strict"),
            ("status-patch", patch) => self.patch(name, "status", patch),
            (_, patch) => self.patch(name, "", patch),
        })
    }
}

impl Drop for Crd {
    fn drop(&mut self) {
        let ignored = self.delete();
        drop(ignored); // ignored: the next run's `install` reports errors
    }
}

/// Compares an answer with the step's expectation.
fn check(step: &Value, answer: Result<Value>) -> Result<()> {
    match (step.get("stored"), step.get("refused"), answer) {
        (Some(wanted), None, Ok(object)) => {
            let fields = fields(object);
            ensure!(fields == *wanted, "stored {fields}");
        }
        (Some(_), None, Err(error)) => return Err(error),
        (None, Some(words), Err(error)) => {
            let text = format!("{error:#}");
            for word in words.as_array().context("not a list")? {
                let word = word.as_str().context("not a text")?;
                ensure!(text.contains(word), "refused without {word:?}: {text}");
            }
        }
        (None, Some(_), Ok(object)) => bail!("stored {object}"),
        _ => bail!("neither stored nor refused, or both"),
    }
    Ok(())
}

/// An object's fields except type and metadata.
fn fields(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
    }
    object
}

/// Runs the test with both CRDs.
fn with_both(namespace: &str, test: impl Fn(&Crd) -> Result<()>) -> Result<()> {
    let namespace = Namespace::create(&Cluster::connect()?, namespace)?;
    for (file, group) in CRDS {
        test(&Crd::install(&namespace, file, group)?)?;
    }
    Ok(())
}

// req: CD-2
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_new_object_gets_defaults_loses_unknown_fields_and_is_refused_beyond_the_limits() -> Result<()>
{
    with_both("crd-creations", |crd| crd.run("creations"))
}

// req: CD-2
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_spec_never_changes_but_may_be_added_and_removed() -> Result<()> {
    with_both("crd-immutability", |crd| crd.run("immutability"))
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_status_is_written_through_its_subresource_and_only_the_spec_changes_the_generation()
-> Result<()> {
    with_both("crd-status", |crd| {
        crd.run("status")?;
        let untouched = crd.patch("d", "status", &json!({}))?;
        let generation = untouched.pointer("/metadata/generation");
        ensure!(generation == Some(&json!(1)), "generation {generation:?}");
        Ok(())
    })
}

// req: CHANNEL-8
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_channel_is_written_once_and_cannot_be_changed_or_removed() -> Result<()> {
    let namespace = Namespace::create(&Cluster::connect()?, "crd-channel")?;
    let [(file, group), _] = CRDS;
    Crd::install(&namespace, file, group)?.run("channel")
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn only_our_crd_keeps_conditions_and_channel_and_shows_them_in_columns() -> Result<()> {
    let status = json!({
        "status": "NotReady",
        "observedGeneration": 1,
        "channel": 5,
        "conditions": [{
            "type": "Admitted", "status": "True", "reason": "Admitted", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-02T03:04:05Z",
        }, {
            "type": "Ready", "status": "False", "reason": "NodesMissing", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-02T03:04:05Z",
        }],
    });
    let spec = json!({ "channel": { "resourceClaimTemplate": { "name": "t" } } });
    with_both("crd-additions", |crd| {
        crd.create("d", &json!({ "spec": spec }), "strict")?;
        let patched = crd.patch("d", "status", &json!({ "status": status }))?;
        let (kept, columns, values) = match crd.group {
            OURS => (
                status.clone(),
                "NAME STATUS REASON CHANNEL TEMPLATE AGE",
                "d NotReady NodesMissing 5 t",
            ),
            _ => (json!({ "status": "NotReady" }), "NAME AGE", "d"),
        };
        ensure!(patched.get("status") == Some(&kept), "stored {patched}");

        let namespace = format!("--namespace={}", crd.namespace);
        let table = crd.cluster.kubectl(&["get", &crd.resource(), &namespace])?;
        let lines = table.lines().map(|line| line.split_whitespace());
        let lines: Vec<String> = lines
            .map(|words| words.collect::<Vec<_>>().join(" "))
            .collect();
        // The last value is the object's age.
        let shown = matches!(lines.as_slice(), [first, second]
            if first == columns && second.rsplit_once(' ').is_some_and(|(all, _)| all == values));
        ensure!(shown, "{}: {table}", crd.group);
        Ok(())
    })
}
