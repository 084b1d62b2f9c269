//! Two controllers and one lease.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use crate::support::{
    Component, Controller, Fixture, LEASE, Proxy, RETRY, Setup, Snapshot, domain, named, run,
    seconds, through_proxy, throughout, until, within,
};

/// A lease's duration, one retry, and time for polling and requests.
const TAKEOVER: Duration =
    Duration::from_millis(1_000 * (LEASE.as_secs() + RETRY.as_secs()) + 1_000);

/// Enough domains that the interruption comes during their creation.
const FORTY: usize = 40;

// req: CD-25
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn the_other_controller_takes_over_when_the_leader_is_killed() -> Result<()> {
    run(async |on| {
        let (first, second) = on.start_two(Setup::default()).await?;
        on.create_ready("before").await?;
        let started = Instant::now();
        first.kill();
        on.create(&named("after")).await?;
        let took = on.leads_within(TAKEOVER, "second").await?;
        on.until_ready("after").await;
        let working = started.elapsed();
        ensure!(working < TAKEOVER + RETRY, "it worked after {working:?}");
        is_leader(&second)?;
        Ok(format!(
            "lease taken after {}, domain Ready after {}",
            seconds(took),
            seconds(working)
        ))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn sigterm_releases_the_lease_and_ends_the_controller_within_a_second() -> Result<()> {
    run(async |on| {
        let (first, second) = on.start_two(Setup::default()).await?;
        on.create_ready("before").await?;
        let (status, took) = first.terminate().await?;
        ensure!(status.success(), "it ended with {status}");
        ensure!(took < Duration::from_secs(1), "it took {took:?}");
        ensure!(on.leader().await? != "first", "first still holds the lease");
        let limit = RETRY + Duration::from_secs(1);
        let taken = on.leads_within(limit, "second").await?;
        on.create_ready("after").await?;
        is_leader(&second)?;
        let (ended, taken) = (seconds(took), seconds(taken));
        Ok(format!("ended after {ended}, lease taken {taken} later"))
    })
}

// req: CD-26
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_leader_that_was_paused_past_its_lease_does_no_harm() -> Result<()> {
    run(async |on| {
        let (first, second) = on.start_two(Setup::default()).await?;
        interrupt_creation(on, async || first.pause()).await?;
        let took = on.leads_within(TAKEOVER, "second").await?;
        change_meanwhile(on).await?;
        let before = on.snapshot_of_meaning().await?;
        first.resume()?;
        until_undone(on, &before).await?;
        let before = on.snapshot().await?;
        throughout(LEASE, async || {
            on.is_unchanged_since(&before).await?;
            on.leads("second").await
        })
        .await?;
        is_standby(&first)?;
        is_leader(&second)?;
        Ok(format!("lease taken {} after the pause", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn writes_of_the_old_leader_that_arrive_late_do_no_harm() -> Result<()> {
    run(async |on| {
        let proxy = Proxy::start().await?;
        let kubeconfig = Some(through_proxy(on, &proxy, None)?);
        let setup = Setup {
            kubeconfig,
            ..Setup::default()
        };
        let (first, second) = on.start_two(setup).await?;
        interrupt_creation(on, async || {
            proxy.hold();
            Ok(())
        })
        .await?;
        on.leads_within(TAKEOVER, "second").await?;
        change_meanwhile(on).await?;
        let before = on.snapshot_of_meaning().await?;
        let held = proxy.release();
        ensure!(held > 0, "no write was held");
        until_undone(on, &before).await?;
        throughout(LEASE, async || on.is_unchanged_since(&before).await).await?;
        until("the old leader is ready and not leading", async || {
            first.ready()?;
            is_standby(&first)
        })
        .await;
        is_leader(&second)?;
        Ok(format!("{held} connections had a request held"))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn one_controller_leads_after_the_api_server_was_frozen() -> Result<()> {
    run(async |on| {
        let (first, second) = on.start_two(Setup::default()).await?;
        on.create_many(FORTY).await?;
        {
            let _frozen = Frozen::new()?;
            sleep(LEASE * 2).await;
        }
        let answered = Instant::now();
        for i in 0..FORTY {
            on.until_ready(&format!("d{i}")).await;
        }
        on.create_ready("after").await?;
        let working = answered.elapsed();
        until("one leads, and both are ready", async || {
            first.ready()?;
            second.ready()?;
            let leaders = leads(&first)? + leads(&second)?;
            ensure!(leaders == 1, "{leaders} lead");
            Ok(())
        })
        .await;
        Ok(format!(
            "all Ready {} after the API server answered again",
            seconds(working)
        ))
    })
}

/// The API server, stopped until this is dropped.
struct Frozen(Component);

impl Frozen {
    fn new() -> Result<Self> {
        let server = Component::of_cluster("apiserver")?;
        server.signal("STOP")?;
        Ok(Self(server))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.0.signal("CONT"));
    }
}

/// Creates forty domains, and interrupts the leader when it has started on them.
async fn interrupt_creation(
    on: &Fixture,
    interrupt: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    on.create_many(FORTY).await?;
    until("a template is created", async || {
        ensure!(on.snapshot().await?.templates() > 0, "there is none");
        Ok(())
    })
    .await;
    interrupt().await
}

/// Changes that the old leader does not see: domains are deleted, some are recreated with the same
/// name and another template.
async fn change_meanwhile(on: &Fixture) -> Result<()> {
    for i in 0..FORTY {
        on.until_ready(&format!("d{i}")).await;
    }
    for i in 20..FORTY {
        let name = format!("d{i}");
        on.delete_within(Duration::from_secs(10), &name).await?;
        if i >= 30 {
            on.create(&domain(&name, &format!("{name}-again"))).await?;
            on.until_ready(&name).await;
        }
    }
    Ok(())
}

/// Waits until late writes of the old leader have no effect: they change nothing, or are undone at once.
async fn until_undone(on: &Fixture, before: &Snapshot) -> Result<()> {
    within(Duration::from_secs(5), "nothing differs", async || {
        // Late writes must arrive first.
        sleep(RETRY).await;
        on.is_unchanged_since(before).await
    })
    .await
    .map(drop)
}

fn is_leader(controller: &Controller) -> Result<()> {
    ensure!(leads(controller)? == 1, "imex_dra_leader is not 1");
    Ok(())
}

fn is_standby(controller: &Controller) -> Result<()> {
    ensure!(leads(controller)? == 0, "imex_dra_leader is not 0");
    Ok(())
}

fn leads(controller: &Controller) -> Result<u64> {
    controller.metric("imex_dra_leader")
}
