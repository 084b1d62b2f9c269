//! The chart's policies and roles on the real API server: which accounts may write slices, which claims are refused at
//! creation, and the permissions of the programs and of the chart's Jobs.
//! Each test prints its table.

#![expect(
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    reason = "tables are printed for readers of the run, and written out"
)]

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, ChartValue, TestDomain};
use cluster_tests::node_pod::NAMESPACE;
use cluster_tests::permissions::{Account, DRIVER, can_i, new_slice, new_slice_of, rights, row};
use cluster_tests::release::CHART;
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::{Value, json};

const KINDS: [&str; 2] = ["ResourceClaim", "ResourceClaimTemplate"];

// req: CHART-10
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn only_the_plugin_of_a_node_publishes_its_devices() -> Result<()> {
    let cluster = Cluster::connect()?;
    let mut slices = cluster.items(&["resourceslices", "--field-selector=spec.nodeName=node2"])?;
    let ours = slices.pop().context("node 2 has no slice")?;
    let mut changed = ours.clone();
    changed["spec"]["devices"] = json!([]);
    let (forged, foreign) = (
        new_slice("forged", DRIVER),
        new_slice("foreign", "other.example.com"),
    );
    let own = Account::plugin("the plugin on node 2", "node2");
    let neighbour = Account::plugin("the plugin on node 1", "node1");
    let without_node = Account {
        name: "the plugin's account with a token without pod",
        options: vec![Account::account("kubeletplugin")],
    };
    let other = Account::other_account("another driver, with all rights", "other-driver");
    let system = Account::other_account("a controller of Kubernetes", "kube-system");
    let (admin, kubelet) = (
        Account::admin(),
        Account::kubelet("kubelet on node 1", "node1"),
    );
    let of_node2 = "may not write a ResourceSlice of node 'node2'";
    let rows: [(&Account, &str, &str, &Value, Option<&str>); 15] = [
        (&own, "its own slice", "replace", &changed, None),
        (&own, "its own slice", "delete", &ours, None),
        (
            &own,
            "a slice of another driver",
            "create",
            &foreign,
            Some("of driver 'other.example.com'"),
        ),
        (
            &neighbour,
            "node 2's slice",
            "replace",
            &changed,
            Some(of_node2),
        ),
        (
            &neighbour,
            "node 2's slice",
            "delete",
            &ours,
            Some(of_node2),
        ),
        (
            &neighbour,
            "a new one for node 2",
            "create",
            &forged,
            Some(of_node2),
        ),
        (
            &without_node,
            "node 2's slice",
            "replace",
            &changed,
            Some("is not bound to a node"),
        ),
        (
            &other,
            "a new one of this driver",
            "create",
            &forged,
            Some("may not write a ResourceSlice of compute-domain"),
        ),
        (
            &other,
            "node 2's slice",
            "replace",
            &changed,
            Some("may not write a ResourceSlice of compute-domain"),
        ),
        (
            &other,
            "a slice of its own driver",
            "create",
            &foreign,
            None,
        ),
        (&system, "node 2's slice", "replace", &changed, None),
        (&system, "node 2's slice", "delete", &ours, None),
        (&admin, "node 2's slice", "replace", &changed, None),
        (&admin, "node 2's slice", "delete", &ours, None),
        (
            &kubelet,
            "node 2's slice",
            "delete",
            &ours,
            Some("system:node:node1"),
        ),
    ];
    println!("| who | does what | |\n|---|---|---|");
    for (who, what, verb, object, wanted) in rows {
        let refused = who.refused(&cluster, verb, object);
        row(
            who.name,
            &format!("{verb}: {what}"),
            refused.as_deref(),
            wanted,
        )?;
    }
    // kubelet deletes its node's slices when it starts.
    let wipe = [
        "kubectl",
        "delete",
        "resourceslices",
        "--dry-run=server",
        "--field-selector=spec.nodeName=node1",
        "--as=system:node:node1",
        "--as-group=system:nodes",
    ];
    let refused = cluster
        .script(&wipe, "")
        .err()
        .map(|error| format!("{error:#}"));
    row(
        kubelet.name,
        "delete: all slices of its node",
        refused.as_deref(),
        None,
    )
}

/// The only slice of this driver on the node.
fn slice_of(cluster: &Cluster, node: &str) -> Result<Value> {
    let ours = format!("--field-selector=spec.driver={DRIVER},spec.nodeName={node}");
    let slices = cluster.items(&["resourceslices", &ours])?;
    let [slice] = <[Value; 1]>::try_from(slices)
        .ok()
        .context("not one slice")?;
    Ok(slice)
}

// req: CHART-10
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_stolen_token_of_node_1_can_write_only_slices_of_node_1() -> Result<()> {
    let cluster = Cluster::connect()?;
    let token = Account::with_token(&cluster, "holder of node 1's token", "node1")?;
    let (own, foreign) = (slice_of(&cluster, "node1")?, slice_of(&cluster, "node2")?);
    let (new, forged) = (
        new_slice_of("node1", "by-token", DRIVER),
        new_slice("forged-by-token", DRIVER),
    );
    let of_node2 = Some("may not write a ResourceSlice of node 'node2'");
    println!("| who | does (without dry run) | |\n|---|---|---|");
    for (verb, what, object, wanted) in [
        ("create", "a slice of node 2", &forged, of_node2),
        ("delete", "node 2's slice", &foreign, of_node2),
        ("create", "a slice of node 1", &new, None),
        ("delete", "node 1's slice", &own, None),
    ] {
        let refused = token.refused_without_dry_run(&cluster, verb, object);
        row(
            token.name,
            &format!("{verb}: {what}"),
            refused.as_deref(),
            wanted,
        )?;
    }
    ensure!(slice_of(&cluster, "node2")? == foreign, "node 2's slice");
    // The plugin of the node deletes the foreign slice and recreates its own.
    wait_until(&cluster, "the plugin has repaired its slices", || {
        let slice = slice_of(&cluster, "node1")?;
        let uid = |slice: &Value| slice.pointer("/metadata/uid").cloned();
        ensure!(uid(&slice) != uid(&own), "it is not deleted");
        ensure!(
            slice.pointer("/metadata/name") != new.pointer("/metadata/name"),
            "it is the slice made with the token"
        );
        Ok(())
    })
}

/// A request, and words of the refusal.
type ClaimCase = (&'static str, Value, Option<&'static str>);

/// A claim with this request and these parameters for the driver.
fn claim(request: Value, parameters: Value) -> Value {
    json!({"devices": {
        "requests": [{"name": "channel", "exactly": request}],
        "config": [{"opaque": {"driver": DRIVER, "parameters": parameters}}],
    }})
}

fn claims(ours: Value) -> Vec<ClaimCase> {
    let class = "compute-domain-default-channel.nvidia.com";
    let channel = |more: Value| {
        let mut parameters = json!({
            "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig",
            "domainID": "8f4b8d52-3a1e-4c07-9d2f-6b1f0c9a7e11",
        });
        if let (Some(fields), Some(more)) = (parameters.as_object_mut(), more.as_object()) {
            fields.extend(more.clone());
        }
        parameters
    };
    let one = || json!({"deviceClassName": class});
    let daemon = json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainDaemonConfig", "domainID": "x"});
    let first_available = json!({"devices": {"requests": [{"name": "channel", "firstAvailable": [{"name": "any", "deviceClassName": class}]}]}});
    let mode = |mode: &str| claim(one(), channel(json!({"allocationMode": mode})));
    let other = json!({"devices": {
        "requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu.example.com", "count": 8}}],
        "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"kind": "GpuConfig", "allocationMode": "All"}}}],
    }});
    vec![
        ("as the controller's templates", ours, None),
        (
            "without allocationMode",
            claim(one(), channel(json!({}))),
            None,
        ),
        ("allocationMode: empty", mode(""), None),
        ("allocationMode: Single", mode("Single"), None),
        (
            "allocationMode: All",
            mode("All"),
            Some("must be Single or empty"),
        ),
        (
            "allocationMode: foo",
            mode("foo"),
            Some("must be Single or empty"),
        ),
        (
            "a daemon's config",
            claim(one(), daemon),
            Some("claims of IMEX daemons"),
        ),
        (
            "a daemon's class",
            claim(
                json!({"deviceClassName": "compute-domain-daemon.nvidia.com"}),
                channel(json!({})),
            ),
            Some("claims of IMEX daemons"),
        ),
        (
            "a config of another kind",
            claim(one(), json!({"kind": "GpuConfig"})),
            Some("are not a ComputeDomainChannelConfig"),
        ),
        (
            "count: 2",
            claim(
                json!({"deviceClassName": class, "count": 2}),
                channel(json!({})),
            ),
            Some("a claim has one IMEX channel"),
        ),
        (
            "all devices of the class",
            claim(
                json!({"deviceClassName": class, "allocationMode": "All"}),
                channel(json!({})),
            ),
            Some("a claim has one IMEX channel"),
        ),
        ("firstAvailable", first_available, None),
        ("another driver's", other, None),
    ]
}

// req: CHART-5
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn with_the_webhook_enabled_claims_that_no_node_would_prepare_are_refused_at_creation() -> Result<()>
{
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "configs")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "before", 1, Some(&domain))?;
    let template = cluster.items(&["resourceclaimtemplates", "-n", &namespace.name])?;
    let ours = template
        .first()
        .context("no template")?
        .pointer("/spec/spec");
    let ours = ours.context("no spec")?.clone();
    let rows = claims(ours);
    let refused = |kind: &str, spec: &Value| {
        let spec = match kind {
            "ResourceClaim" => spec.clone(),
            _ => json!({"spec": spec}),
        };
        let metadata = json!({"name": "tried", "namespace": namespace.name});
        let object = json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
        Account::admin().refused(&cluster, "create", &object)
    };
    let table = |is_on: bool| -> Result<()> {
        println!("| webhook.enabled={is_on}: object | with | |\n|---|---|---|");
        for (what, spec, wanted) in &rows {
            for kind in KINDS {
                let refused = refused(kind, spec);
                row(kind, what, refused.as_deref(), wanted.filter(|_| is_on))?;
            }
        }
        Ok(())
    };
    table(false)?;
    let _on = ChartValue::set(&cluster, "webhook.enabled", "true")?;
    // The API server enforces a new policy after a short delay.
    wait_until(&cluster, "the policies are enforced", || {
        for kind in KINDS {
            for (what, spec, _) in rows.iter().filter(|row| row.2.is_some()) {
                refused(kind, spec).with_context(|| format!("{kind}, {what}: allowed"))?;
            }
        }
        Ok(())
    })?;
    table(true)?;
    fixtures::run_pod(&cluster, &namespace, "after", 2, Some(&domain))
}

// req: CD-10, CHART-11, NODE-37
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_programs_have_only_the_permissions_that_they_need() -> Result<()> {
    let cluster = Cluster::connect()?;
    let plugin = Account::account("kubeletplugin");
    let controller = Account::account("controller");
    let rows = [
        (&plugin, "get resourceclaims", true),
        (&plugin, "get computedomains.resource.nvidia.com", true),
        (&plugin, "create resourceslices", true),
        (&plugin, "patch resourceclaims/status", true),
        (&plugin, "update resourceclaims", false),
        (&plugin, "delete resourceclaims", false),
        (&plugin, "update computedomains.resource.nvidia.com", false),
        (
            &plugin,
            "patch computedomains.resource.nvidia.com/status",
            false,
        ),
        (&plugin, "create resourceclaimtemplates", false),
        (&plugin, "get secrets", false),
        (&plugin, "get pods", false),
        (&plugin, "create pods", false),
        (&plugin, "patch nodes", false),
        (&plugin, "get leases", false),
        (&plugin, "impersonate users", false),
        (
            &controller,
            "patch computedomains.resource.nvidia.com/status",
            true,
        ),
        (&controller, "create resourceclaimtemplates", true),
        (
            &controller,
            "delete computedomains.resource.nvidia.com",
            false,
        ),
        (&controller, "update resourceclaims", false),
        (&controller, "delete resourceclaims", false),
        (&controller, "create resourceslices", false),
        (&controller, "get secrets", false),
        (&controller, "get pods", false),
        (&controller, "create pods", false),
        (&controller, "create daemonsets", false),
        (&controller, "patch nodes", false),
        (&controller, "get leases", false),
        (&controller, "impersonate users", false),
    ];
    let rows = rows.map(|(who, what, is_allowed)| (who.as_str(), what, is_allowed));
    rights(&cluster, "in another namespace", "default", &rows)?;
    // The namespace with the programs' leases, and the chart's Secrets and pods.
    let own = [
        (&controller, "create leases", true),
        (&controller, "update leases imex-dra-controller", true),
        (&controller, "update leases other", false),
        (&controller, "get secrets", false),
        (&controller, "get configmaps", false),
        (&controller, "create pods", false),
        (&controller, "delete pods", false),
        (&controller, "create daemonsets", false),
        (&controller, "patch daemonsets", false),
        (&controller, "delete deployments", false),
        (&controller, "create serviceaccounts/token", false),
        (&plugin, "get leases", false),
        (&plugin, "update leases", false),
        (&plugin, "get secrets", false),
        // Cluster-wide, with a selector for its node.
        (&plugin, "list pods", true),
        (&plugin, "delete pods", false),
        (&plugin, "create pods", false),
        (&plugin, "create pods/exec", false),
        (&plugin, "patch daemonsets", false),
        (&plugin, "create serviceaccounts/token", false),
    ];
    let own = own.map(|(who, what, is_allowed)| (who.as_str(), what, is_allowed));
    rights(&cluster, "in the driver's own", NAMESPACE, &own)
}

/// The accounts of the chart's Jobs and their permissions, until this is dropped. The chart has them only while the
/// Jobs run.
struct HookAccounts(Cluster, String);

impl HookAccounts {
    fn create(cluster: &Cluster) -> Result<Self> {
        let template = [
            "helm",
            "template",
            "imex-dra",
            CHART,
            "--namespace=imex-dra",
            "--set=featureGates.HostManagedIMEX=true",
            "--show-only=templates/hooks.yaml",
        ];
        let rendered = cluster.script(&template, "")?;
        let objects = rendered.split("\n---\n");
        let objects: Vec<&str> = objects.filter(|it| !it.contains("\nkind: Job")).collect();
        ensure!(objects.len() == 6, "not two accounts: {rendered}");
        let accounts = Self(cluster.clone(), objects.join("\n---\n"));
        cluster.apply(&accounts.1)?;
        Ok(accounts)
    }
}

impl Drop for HookAccounts {
    fn drop(&mut self) {
        let delete = ["kubectl", "delete", "-f", "-", "--ignore-not-found"];
        drop(self.0.script(&delete, &self.1)); // ignored: Helm deletes them before it creates them
    }
}

// req: CHART-11, CHART-14
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_charts_jobs_have_only_the_permissions_that_they_need() -> Result<()> {
    let cluster = Cluster::connect()?;
    let (guard, crds) = (Account::account("guard"), Account::account("crds"));
    let (guard, crds) = (guard.as_str(), crds.as_str());
    let domains = "list computedomains.resource.nvidia.com";
    let between = [
        (guard, domains, false),
        (guard, "list resourceclaims", false),
        (crds, domains, false),
        (crds, "create customresourcedefinitions", false),
    ];
    rights(&cluster, "between installations", NAMESPACE, &between)?;
    let accounts = HookAccounts::create(&cluster)?;
    // RBAC applies a new role after a short delay.
    wait_until(&cluster, "the accounts have their permissions", || {
        for who in [guard, crds] {
            let what = "computedomains.resource.nvidia.com";
            let can = can_i(&cluster, &[who], NAMESPACE, "list", what)?;
            ensure!(can, "{who}: not yet");
        }
        Ok(())
    })?;
    let crd = "patch customresourcedefinitions computedomains.resource.nvidia.com";
    let other_crd = "patch customresourcedefinitions gateways.gateway.networking.k8s.io";
    let during = [
        (guard, domains, true),
        (guard, "list resourceclaimtemplates", true),
        (guard, "get computedomains.resource.nvidia.com", false),
        (guard, "delete computedomains.resource.nvidia.com", false),
        (guard, "patch computedomains.resource.nvidia.com", false),
        (guard, "create resourceclaimtemplates", false),
        (guard, "list resourceclaims", true),
        (guard, "patch resourceclaims", false),
        (guard, "list customresourcedefinitions", false),
        (guard, crd, false),
        (guard, "list pods", false),
        (guard, "list secrets", false),
        (guard, "create jobs", false),
        (guard, "impersonate users", false),
        (crds, domains, true),
        (crds, crd, true),
        (crds, "create customresourcedefinitions", true),
        (crds, other_crd, false),
        (crds, "patch customresourcedefinitions", false),
        (crds, "list customresourcedefinitions", false),
        (
            crds,
            "delete customresourcedefinitions computedomains.resource.nvidia.com",
            false,
        ),
        (
            crds,
            "update customresourcedefinitions computedomains.resource.nvidia.com",
            false,
        ),
        (crds, "patch computedomains.resource.nvidia.com", false),
        (crds, "delete computedomains.resource.nvidia.com", false),
        (crds, "list resourceclaimtemplates", false),
        (crds, "list secrets", false),
        (crds, "create pods", false),
        (crds, "create clusterrolebindings", false),
        (crds, "impersonate users", false),
    ];
    rights(&cluster, "during an installation", NAMESPACE, &during)?;
    drop(accounts);
    Ok(())
}
