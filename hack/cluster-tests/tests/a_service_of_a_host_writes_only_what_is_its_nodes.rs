//! A plugin that is a host service has kubelet's identity. Beyond kubelet's usual permissions, it may only write
//! the reports of its own node's devices. The test prints its tables.

#![expect(
    clippy::too_many_lines,
    reason = "tables are printed for readers of the run, and written out"
)]

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, ChartValue, TestDomain};
use cluster_tests::permissions::{Account, DRIVER, can_i, new_slice, row};
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::{Value, json};

// req: CHART-19
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_service_of_a_host_reports_its_own_devices_and_writes_nothing_else_of_claims() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "as-kubelet")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "worker", 2, Some(&domain))?;
    let claim = wait_until(&cluster, "the device is reported", || {
        let claims = cluster.items(&["resourceclaims", "-n", &namespace.name])?;
        let claim = claims.into_iter().next().context("no claim")?;
        claim.pointer("/status/devices/0").context("not yet")?;
        Ok(claim)
    })?;
    let claim = claim.pointer("/metadata/name").and_then(Value::as_str);
    let claim = claim.context("no name")?;
    let can = |verb: &str, what: &str| {
        let who = ["--as=system:node:node1", "--as-group=system:nodes"];
        can_i(&cluster, &who, "default", verb, what)
    };
    ensure!(!can("patch", "resourceclaims/status")?, "without pods only");

    let _without_pods = ChartValue::set(&cluster, "kubeletPlugin.hostService.enabled", "true")?;
    println!("| a kubelet | |\n|---|---|");
    for (verb, what, is_allowed) in [
        ("get", "resourceclaims", true),
        ("list", "resourceclaims", true),
        ("patch", "resourceclaims/status", true),
        ("list", "computedomains.resource.nvidia.com", true),
        ("create", "events.events.k8s.io", true),
        ("update", "resourceclaims/status", false),
        ("update", "resourceclaims/binding", false),
        ("patch", "resourceclaims", false),
        ("delete", "resourceclaims", false),
        ("create", "resourceclaimtemplates", false),
        ("patch", "computedomains.resource.nvidia.com", false),
        ("patch", "computedomains.resource.nvidia.com/status", false),
        ("list", "resourceslices", false),
        ("get", "leases.coordination.k8s.io", false),
    ] {
        let answer = can(verb, what)?;
        let word = if answer { "allowed" } else { "refused" };
        println!("| {verb} {what} | {word} |");
        ensure!(
            answer == is_allowed,
            "a kubelet may {verb} {what}: {answer}"
        );
    }

    let own = Account::kubelet("kubelet on node 2", "node2");
    let neighbour = Account::kubelet("kubelet on node 1", "node1");
    // RBAC and the API server's own checks allow the request, so that only the policy can refuse it.
    let own_with_rights = Account::kubelet("node 2 with all rights", "node2").with_all_rights();
    let neighbour_with_rights =
        Account::kubelet("node 1 with all rights", "node1").with_all_rights();
    let nameless = Account {
        name: "a member of system:nodes that is not a node",
        options: vec![
            "--as=node2".to_owned(),
            "--as-group=system:nodes".to_owned(),
        ],
    }
    .with_all_rights();
    let change =
        json!([{"op": "replace", "path": "/status/devices/0/data", "value": {"channel": 1}}]);
    let remove = json!([{"op": "remove", "path": "/status/devices/0"}]);
    let reserve = json!([{"op": "add", "path": "/status/reservedFor/-", "value": {"resource": "pods", "name": "other", "uid": "1"}}]);
    let deallocate = json!([{"op": "remove", "path": "/status/reservedFor"}, {"op": "remove", "path": "/status/devices"}, {"op": "remove", "path": "/status/allocation"}]);
    let (foreign, binding) = (
        "in its own pool",
        "not change the allocation or reservations",
    );
    let rows: [(&Account, &str, &Value, Option<&str>); 11] = [
        (&own, "change its device's report", &change, None),
        (&own, "remove its device's report", &remove, None),
        (&own, "reserve the claim", &reserve, Some("")),
        (&own, "deallocate the claim", &deallocate, Some("")),
        (&neighbour, "change node 2's report", &change, Some(foreign)),
        (&neighbour, "remove node 2's report", &remove, Some(foreign)),
        (
            &own_with_rights,
            "reserve the claim",
            &reserve,
            Some(binding),
        ),
        (
            &own_with_rights,
            "deallocate the claim",
            &deallocate,
            Some(binding),
        ),
        (
            &neighbour_with_rights,
            "change node 2's report",
            &change,
            Some(foreign),
        ),
        (&nameless, "change node 2's report", &change, Some(foreign)),
        (&Account::admin(), "change node 2's report", &change, None),
    ];
    // kubectl reads the status before it patches; the plugin does not.
    let reader = [
        "create",
        "role",
        "reader",
        "--verb=get",
        "--resource=resourceclaims/status",
    ];
    cluster.kubectl(&[&reader[..], &["-n", &namespace.name]].concat())?;
    let readers = [
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        "--group=readers",
    ];
    cluster.kubectl(&[&readers[..], &["-n", &namespace.name]].concat())?;
    let patch = |who: &Account, patch: &Value| {
        let patch = format!("--patch={patch}");
        let mut command = vec!["patch", "resourceclaim", claim, "-n", &namespace.name];
        command.extend([
            "--subresource=status",
            "--type=json",
            "--dry-run=server",
            &patch,
        ]);
        if !who.options.is_empty() {
            command.push("--as-group=readers");
        }
        command.extend(who.options.iter().map(String::as_str));
        let refused = cluster.kubectl(&command).err();
        refused.map(|error| format!("{error:#}"))
    };
    // The API server enforces a new policy after a short delay.
    wait_until(&cluster, "the policy is enforced", || {
        patch(&neighbour, &change).context("allowed").map(drop)
    })?;
    println!("| who | does what to a claim on node 2 | |\n|---|---|---|");
    for (who, what, change, wanted) in rows {
        row(who.name, what, patch(who, change).as_deref(), wanted)?;
    }
    let forged = new_slice("forged", DRIVER);
    let refused = neighbour.refused(&cluster, "create", &forged);
    let wanted = Some("ResourceSlice");
    row(
        neighbour.name,
        "create: a slice of node 2",
        refused.as_deref(),
        wanted,
    )?;
    let refused = own.refused(&cluster, "create", &forged);
    row(
        own.name,
        "create: a slice of its node",
        refused.as_deref(),
        None,
    )
}
