//! Domains that are deleted during their creation, around crashes of the controller.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::DeleteParams;
use tokio::time::sleep;

use crate::support::{Controller, Fixture, named, run, run_for, seconds, until};

/// The number of pairs of create and delete: the default, and the variable that overrides it.
const PAIRS: usize = 1_000;
const PAIRS_VARIABLE: &str = "CREATE_DELETE_PAIRS";

const A_MINUTE: Duration = Duration::from_secs(60);

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_domain_deleted_while_it_is_being_created_leaves_nothing() -> Result<()> {
    run(async |on| {
        on.start().await?;
        stream::iter(0..250_u64)
            .map(|i| create_then_delete(on, &on.namespace, format!("d{i}"), i % 61))
            .buffer_unordered(8)
            .try_collect::<Vec<()>>()
            .await?;
        let took = on.nothing_is_left_within(A_MINUTE).await?;
        Ok(format!("250 pairs; clean after {}", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn domains_created_and_deleted_around_crashes_leave_nothing() -> Result<()> {
    let pairs = match std::env::var(PAIRS_VARIABLE) {
        Ok(text) => text.parse().context(PAIRS_VARIABLE)?,
        Err(_) => PAIRS,
    };
    let limit = Duration::from_secs(240) + Duration::from_millis(50) * u32::try_from(pairs)?;
    run_for(limit, async |on| create_delete_pairs(on, pairs).await)
}

async fn create_delete_pairs(on: &Fixture, pairs: usize) -> Result<String> {
    let controller = on.start().await?;
    let mut namespaces = on.namespaces();
    for _ in 0..3 {
        namespaces.push(on.new_namespace("pairs").await?);
    }
    let all = stream::iter(0..pairs)
        .map(|i| {
            let namespace = &namespaces[i % namespaces.len()];
            // 37 and 101 are coprime: delays are spread, and the same in each run.
            let delay = u64::try_from(i * 37 % 101).unwrap_or_default();
            create_then_delete(on, namespace, format!("d{i}"), delay)
        })
        .buffer_unordered(8)
        .try_collect::<Vec<()>>();
    let kills = while_crashing(&controller, all).await?;
    let took = on.nothing_is_left_within(A_MINUTE).await?;
    for namespace in &namespaces {
        on.delete_namespace(namespace).await?;
    }
    for namespace in &namespaces {
        until("the namespace is deleted", async || {
            on.namespace_gone(namespace).await
        })
        .await;
    }
    let clean = seconds(took);
    Ok(format!(
        "{pairs} pairs, {kills} kills; clean after {clean}, 4 namespaces gone"
    ))
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_hundred_concurrent_domains_around_crashes_leave_nothing() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        let mut kills = 0;
        for round in 0..10 {
            // Each exists up to a second, all at the same time.
            let all = stream::iter(0..100_u64)
                .map(|i| create_then_delete(on, &on.namespace, format!("r{round}-{i}"), i * 10))
                .buffer_unordered(100)
                .try_collect::<Vec<()>>();
            kills += while_crashing(&controller, all).await?;
            on.nothing_is_left_within(A_MINUTE).await?;
        }
        controller.until_ready().await;
        until("the metric no longer counts the domains", async || {
            for state in ["Ready", "NotReady"] {
                let series = format!("nvidia_dra_compute_domain_info{{status=\"{state}\"}}");
                let count = controller.metric(&series).unwrap_or_default();
                ensure!(count == 0, "{series} is {count}");
            }
            Ok(())
        })
        .await;
        Ok(format!("10 rounds of 100 domains, {kills} kills"))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_domain_recreated_under_its_name_gets_its_own_template() -> Result<()> {
    run(async |on| {
        on.start().await?;
        let mut uid = on.create_ready("again").await?;
        let mut template = on.template("again-channel").await?;
        for _ in 0..20 {
            on.delete("again").await?;
            // Until the old one is deleted, the server refuses the name.
            uid = until("it is created again", async || {
                on.create(&named("again")).await
            })
            .await;
            let old = template.metadata.uid.unwrap_or_default();
            until("the new one has its template", async || {
                on.is_ready("again").await?;
                on.is_new_template("again-channel", &old, &uid).await
            })
            .await;
            template = on.template("again-channel").await?;
        }
        Ok(format!("20 times, the last with UID {uid}"))
    })
}

async fn create_then_delete(
    on: &Fixture,
    namespace: &str,
    name: String,
    delay_ms: u64,
) -> Result<()> {
    on.create_in(namespace, &named(&name)).await?;
    sleep(Duration::from_millis(delay_ms)).await;
    on.domains(namespace)
        .delete(&name, &DeleteParams::default())
        .await?;
    Ok(())
}

/// Kills and restarts the controller every few hundred milliseconds until the work is done. Returns
/// the number of kills.
async fn while_crashing<T>(
    controller: &Controller,
    work: impl Future<Output = Result<T>>,
) -> Result<u64> {
    let mut work = pin!(work);
    let mut kills = 0;
    loop {
        // 173 and 400 are coprime: intervals are spread, and the same in each run.
        let pause = Duration::from_millis(200 + kills * 173 % 400);
        tokio::select! {
            done = &mut work => return done.map(|_| kills),
            () = sleep(pause) => {
                controller.restart()?;
                kills += 1;
            }
        }
    }
}
