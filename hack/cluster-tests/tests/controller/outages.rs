//! Outages of a running controller: it loses its CRD, its permissions, its connections.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use cluster_tests::{Component, state_directory};

use crate::support::{
    Applied, Controller, Fixture, OUR_CRD, Proxy, Setup, apply_crd, delete_crd, kubectl, named,
    output_of, run, run_for, seconds, through_proxy, until, with_token, within,
};

const A_MINUTE: Duration = Duration::from_secs(60);

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_deleted_crd_makes_the_controller_unready_until_it_is_restored() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        delete_crd().await?;
        let noticed = unready_within(&controller, &["compute-domains"]).await?;
        apply_crd(&on.client, OUR_CRD).await?;
        let back = ready_within(&controller).await?;
        on.create_ready("domain").await?;
        let (noticed, back) = (seconds(noticed), seconds(back));
        Ok(format!(
            "noticed after {noticed}, ready {back} after it was restored"
        ))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_controller_without_its_role_is_unready_until_the_role_is_restored() -> Result<()> {
    run(async |on| {
        let _rbac = chart_rbac(on)?;
        let account = "imex-dra-service-account-controller";
        let token = kubectl(&["create", "token", "-n", &on.namespace, account])?;
        let config = with_token(on, token.trim())?;
        let proxy = Proxy::start().await?;
        let controller = on
            .start_with(Setup {
                kubeconfig: Some(through_proxy(on, &proxy, Some(config))?),
                ..Setup::default()
            })
            .await?;
        // The chart's role is sufficient, also for events.
        on.create_ready("domain").await?;
        on.until_event("domain", "Admitted").await;
        on.delete_within(A_MINUTE, "domain").await?;
        let refused = controller.lines_with("orbidden");
        ensure!(refused.is_empty(), "{refused:?}");

        let name = format!("imex-dra-clusterrole-binding-controller-{}", on.namespace);
        kubectl(&["delete", "clusterrolebinding", &name])?;
        let user = format!("--as=system:serviceaccount:{}:{account}", on.namespace);
        until("the server refuses lists", async || {
            let can = kubectl(&["auth", "can-i", "list", "computedomains", "-A", &user]);
            ensure!(can.is_err(), "it does not");
            Ok(())
        })
        .await;
        // The server checks permissions when a watch begins, not later.
        proxy.cut();
        let noticed = unready_within(&controller, &["compute-domains", "templates"]).await?;
        let _rbac = chart_rbac(on)?;
        let back = ready_within(&controller).await?;
        on.create_ready("after").await?;
        // While the role exists.
        on.delete_within(A_MINUTE, "after").await?;
        let (noticed, back) = (seconds(noticed), seconds(back));
        Ok(format!(
            "noticed after {noticed}, ready {back} after it was restored"
        ))
    })
}

// req: CD-30
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_dead_connection_to_the_api_server_is_noticed_within_a_minute() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        on.create_ready("before").await?;
        let _silence = Silence::new(&controller)?;
        on.create(&named("after")).await?;
        let took = on.ready_within(A_MINUTE, "after").await?;
        Ok(format!("a domain was Ready {} later", seconds(took)))
    })
}

/// All components except the controller restart with the restored state, as administrators do it.
// req: CD-31
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn after_a_restore_of_etcd_the_leader_reports_it_and_serves_new_domains() -> Result<()> {
    run_for(A_MINUTE * 4, async |on| {
        let controller = on
            .start_with(Setup {
                elected: true,
                ..Setup::default()
            })
            .await?;
        on.create_ready("before").await?;
        let storage = Storage::of_cluster()?;
        storage.while_stopped(Storage::take_snapshot).await?;
        ready_within(&controller).await?;
        for name in ["lost-1", "lost-2", "lost-3"] {
            on.create_ready(name).await?;
        }
        storage.while_stopped(Storage::restore_snapshot).await?;
        on.create(&named("after")).await?;
        let took = on.ready_within(A_MINUTE, "after").await?;
        on.delete_within(A_MINUTE, "before").await?;
        let mut warnings = controller.lines_with("etcd was restored");
        warnings.retain(|line| line.contains(" WARN "));
        ensure!(warnings.len() == 1, "{warnings:?}");
        on.until_event("controller", "HistoryLost").await;
        Ok(format!("a new domain was Ready {} later", seconds(took)))
    })
}

/// etcd and its dependants.
struct Storage {
    state: PathBuf,
}

impl Storage {
    fn of_cluster() -> Result<Self> {
        let state = state_directory()?;
        Ok(Self { state })
    }

    fn take_snapshot(&self) -> Result<()> {
        self.copy("etcd", "etcd-snapshot")
    }

    fn restore_snapshot(&self) -> Result<()> {
        self.copy("etcd-snapshot", "etcd")
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        let [from, to] = [from, to].map(|name| self.state.join(name));
        drop(fs::remove_dir_all(&to));
        output_of(Command::new("cp").arg("-a").args([from, to]), "").map(drop)
    }

    async fn while_stopped(&self, act: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let others = ["scheduler", "controller-manager", "kubelet-1"];
        let mut all = Vec::new();
        for name in ["etcd", "apiserver"].into_iter().chain(others) {
            all.push(Component::of_cluster(name)?);
        }
        for component in all.iter().rev() {
            component.stop().await?;
        }
        act(self)?;
        for component in &all {
            component.start().await?;
        }
        until("the API server answers", async || {
            kubectl(&["get", "--raw", "/readyz"]).map(drop)
        })
        .await;
        Ok(())
    }
}

/// The controller's part of the chart's RBAC, in the test's namespace.
fn chart_rbac(on: &Fixture) -> Result<Applied> {
    let chart = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deployments/helm/imex-dra"
    );
    let mut command = Command::new("helm");
    command
        .args(["template", "imex-dra", chart, "--namespace", &on.namespace])
        .args(["--show-only", "templates/rbac-controller.yaml"])
        .args(["--set", "featureGates.HostManagedIMEX=true"]);
    Applied::manifest(output_of(&mut command, "")?)
}

async fn ready_within(controller: &Controller) -> Result<Duration> {
    within(A_MINUTE, "the controller is ready", async || {
        controller.ready()
    })
    .await
}

/// Waits until `/readyz` names these conditions.
async fn unready_within(controller: &Controller, conditions: &[&str]) -> Result<Duration> {
    within(A_MINUTE, "the controller is not ready", async || {
        let Err(answer) = controller.ready() else {
            bail!("it is ready");
        };
        let answer = answer.to_string();
        for condition in conditions {
            let named = answer.contains(&format!("{condition}: "));
            ensure!(named, "{condition} is not in {answer}");
        }
        Ok(())
    })
    .await
}

/// Drops all packets of the controller's current connections until this is dropped; new connections
/// work.
struct Silence;

const TABLE: [&str; 2] = ["inet", "imex_dra_test"];

impl Silence {
    fn new(controller: &Controller) -> Result<Self> {
        let ports = local_ports(controller.pid()?)?;
        ensure!(!ports.is_empty(), "the controller has no connections");
        let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
        let ports = format!("{{ {} }}", ports.join(", "));
        let silence = Self;
        nft(&format!("add table {}", TABLE.join(" ")))?;
        let chain = format!("{} out", TABLE.join(" "));
        nft(&format!(
            "add chain {chain} {{ type filter hook output priority 0 ; }}"
        ))?;
        nft(&format!(
            "add rule {chain} tcp sport {ports} tcp dport 6443 drop"
        ))?;
        nft(&format!(
            "add rule {chain} tcp dport {ports} tcp sport 6443 drop"
        ))?;
        Ok(silence)
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        drop(nft(&format!("delete table {}", TABLE.join(" "))));
    }
}

fn nft(command: &str) -> Result<()> {
    output_of(Command::new("nft").arg(command), "").map(drop)
}

/// Local ports of the process's connections to the API server.
fn local_ports(pid: u32) -> Result<BTreeSet<u16>> {
    let mut sockets = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let target = fs::read_link(entry?.path()).unwrap_or_default();
        let inode = target.to_str().and_then(|it| it.strip_prefix("socket:["));
        sockets.extend(inode.and_then(|it| it.strip_suffix(']').map(str::to_owned)));
    }
    let mut ports = BTreeSet::new();
    for line in fs::read_to_string(format!("/proc/{pid}/net/tcp"))?.lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, local, remote, ..] = &*fields else {
            continue;
        };
        let to_server = remote.ends_with(":192B"); // 6443
        if to_server && fields.get(9).is_some_and(|inode| sockets.contains(*inode)) {
            let (_, port) = local.split_once(':').context("no port")?;
            ports.insert(u16::from_str_radix(port, 16)?);
        }
    }
    Ok(ports)
}
