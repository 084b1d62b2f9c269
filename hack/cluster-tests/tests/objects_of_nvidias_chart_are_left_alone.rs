//! Beside NVIDIA's chart: when this chart is uninstalled and installed, it neither changes nor takes over objects of
//! NVIDIA's release (`golden/nvidia-objects.txt`), and its driver works beside them.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::release::{helm, install, upgrade, values};
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::{Value, json};

/// `KIND NAME` of each.
const OBJECTS: &str = include_str!("../../../deployments/helm/golden/nvidia-objects.txt");
const THEIR_RELEASE: &str = "gpu";
const THEIR_NAMESPACE: &str = "imex-dra";
const THEIR_ACCOUNT: &str =
    "system:serviceaccount:imex-dra:gpu-dra-driver-nvidia-gpu-service-account-kubeletplugin";

/// Objects of NVIDIA's release, until this is dropped. Those that affect the cluster have the content of its chart.
struct NvidiaObjects {
    cluster: Cluster,
    names: Vec<String>,
}

impl NvidiaObjects {
    fn create(cluster: &Cluster) -> Result<Self> {
        let mut theirs = Self {
            cluster: cluster.clone(),
            names: Vec::new(),
        };
        let lines = OBJECTS.lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            let (kind, name) = line.split_once(' ').context("KIND NAME")?;
            let Some(Value::Object(mut object)) = content(kind, name) else {
                continue;
            };
            let metadata = json!({
                "name": name,
                "namespace": THEIR_NAMESPACE,
                "labels": {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "dra-driver-nvidia-gpu"},
                "annotations": {
                    "meta.helm.sh/release-name": THEIR_RELEASE,
                    "meta.helm.sh/release-namespace": THEIR_NAMESPACE,
                },
            });
            object.insert("kind".to_owned(), json!(kind));
            object.insert("metadata".to_owned(), metadata);
            theirs.names.push(format!("{kind}/{name}"));
            cluster.apply(&Value::Object(object).to_string())?;
        }
        Ok(theirs)
    }

    /// `KIND/NAME UID RESOURCEVERSION` of each, which an update of any part changes.
    fn state(&self) -> Result<Vec<String>> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let of_theirs = ["-n", THEIR_NAMESPACE];
        let objects = self.cluster.items(&[&names[..], &of_theirs].concat())?;
        ensure!(objects.len() == names.len(), "{} objects", objects.len());
        let state = objects.iter().map(|object| {
            let part = |at: &str| object.pointer(at).and_then(Value::as_str);
            let parts = [
                "/kind",
                "/metadata/name",
                "/metadata/uid",
                "/metadata/resourceVersion",
            ];
            let parts: Vec<_> = parts.into_iter().filter_map(part).collect();
            parts.join(" ")
        });
        Ok(state.collect())
    }

    /// Waits until Kubernetes has written the policy's status, once.
    fn wait_until_seen(&self) -> Result<()> {
        wait_until(&self.cluster, "their policy has been checked", || {
            for policy in self
                .names
                .iter()
                .filter(|it| it.contains("AdmissionPolicy/"))
            {
                let policy = self.cluster.json(&["get", policy])?;
                policy
                    .pointer("/status/observedGeneration")
                    .context("it has no status")?;
            }
            Ok(())
        })
    }
}

impl Drop for NvidiaObjects {
    fn drop(&mut self) {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let options = ["--ignore-not-found", "-n", THEIR_NAMESPACE];
        let delete = [&["delete"][..], &names, &options].concat();
        drop(self.cluster.kubectl(&delete)); // ignored: the next run applies them again
    }
}

/// The content of such an object; none for kinds whose status changes all the time, or that would run programs.
fn content(kind: &str, name: &str) -> Option<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let admission = "admissionregistration.k8s.io/v1";
    let rules = json!([{"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["get"]}]);
    let role = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name.replace("-binding", "")});
    let resource = |name: &str| json!({"apiGroups": ["resource.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [name]});
    Some(match kind {
        "ServiceAccount" => json!({"apiVersion": "v1"}),
        "ClusterRole" | "Role" => json!({"apiVersion": rbac, "rules": rules}),
        "ClusterRoleBinding" => {
            json!({"apiVersion": rbac, "roleRef": role("ClusterRole"), "subjects": []})
        }
        "RoleBinding" => json!({"apiVersion": rbac, "roleRef": role("Role"), "subjects": []}),
        "NetworkPolicy" => json!({
            "apiVersion": "networking.k8s.io/v1",
            "spec": {"podSelector": {"matchLabels": {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}}, "policyTypes": ["Ingress"]},
        }),
        "DeviceClass" => {
            let of_class = json!([{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]);
            json!({"apiVersion": "resource.k8s.io/v1", "spec": {"selectors": of_class}})
        }
        "ValidatingAdmissionPolicy" => json!({
            "apiVersion": admission,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [resource("resourceslices")]},
                "matchConditions": [{"name": "theirs", "expression": format!("request.userInfo.username == '{THEIR_ACCOUNT}'")}],
                "validations": [{"expression": "object.spec.driver == 'gpu.nvidia.com'"}],
            },
        }),
        "ValidatingAdmissionPolicyBinding" => {
            json!({"apiVersion": admission, "spec": {"policyName": name, "validationActions": ["Deny"]}})
        }
        // No server answers this webhook.
        "ValidatingWebhookConfiguration" => json!({
            "apiVersion": admission,
            "webhooks": [{
                "name": "validate-resource-claim-parameters.nvidia.com",
                "failurePolicy": "Ignore",
                "timeoutSeconds": 1,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "rules": [resource("resourceclaims"), resource("resourceclaimtemplates")],
                "clientConfig": {"service": {"name": "dra-driver-nvidia-gpu-webhook", "namespace": THEIR_NAMESPACE, "path": "/validate"}},
            }],
        }),
        _ => return None,
    })
}

// req: CHART-8
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn they_survive_an_uninstallation_and_an_installation_of_this_chart() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "beside-nvidias")?;
    upgrade(&cluster, &["--set=guard.override=false"])?;
    let values = values(&cluster)?;
    let theirs = NvidiaObjects::create(&cluster)?;
    theirs.wait_until_seen()?;
    let before = theirs.state()?;
    ensure!(before.len() > 15, "only {} objects", before.len());

    fixtures::wait_for_domains_of_ended_tests(&cluster)?;
    helm(&cluster, "uninstall", &["--wait", "--timeout=120s"])?;
    let after = theirs.state()?;
    ensure!(after == before, "uninstalled: {after:#?}, not {before:#?}");
    install(&cluster, &values)?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "worker", 1, Some(&domain))?;
    let after = theirs.state()?;
    ensure!(after == before, "installed: {after:#?}, not {before:#?}");
    cluster.kubectl(&["delete", "pod", "worker", "-n", &namespace.name, "--wait"])?;
    domain.delete(&cluster, &namespace)
}
