//! A channel for each domain, owned by Leases: never one for two, despite crashes, late writes and edits.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::{
    Applied, Channels, Controller, Fixture, LEASE, Proxy, RETRY, Setup, channel, named, run,
    run_for, seconds, through_proxy, throughout, until, within,
};

/// The nodes' number of channels in the test of all channels: the default, and the variable that overrides it.
const COUNT: u32 = 64;
const COUNT_VARIABLE: &str = "CHANNEL_COUNT";

const TAKEOVER: Duration =
    Duration::from_millis(1_000 * (LEASE.as_secs() + RETRY.as_secs()) + 1_000);

fn isolated(count: u32) -> Setup {
    Setup {
        channels: Some(count),
        ..Setup::default()
    }
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn every_domain_gets_a_channel_and_one_too_many_waits_until_one_is_free() -> Result<()> {
    let count = std::env::var(COUNT_VARIABLE).ok();
    let count = count.map_or(Ok(COUNT), |count| count.parse())?;
    run_for(Duration::from_secs(900), async |on| {
        let controller = on.start_with(isolated(count)).await?;
        let started = Instant::now();
        let all = usize::try_from(count - 1)?;
        let names = on.create_many_ready(all).await?;
        let took = started.elapsed();
        let mut numbers = Vec::new();
        for name in &names {
            numbers.push(on.confirmed_channel(name).await?);
        }
        numbers.sort_unstable();
        ensure!(
            numbers == (1..u64::from(count)).collect::<Vec<_>>(),
            "{numbers:?}"
        );
        let gauge = |state| controller.metric(&format!("imex_dra_channels{{state=\"{state}\"}}"));
        ensure!((gauge("used")?, gauge("free")?) == (u64::from(count) - 1, 0));

        on.create(&named("first-too-many")).await?;
        on.until_refused("first-too-many", "NoChannelFree").await;
        sleep(Duration::from_secs(1)).await; // creation times have whole seconds
        on.create(&named("second-too-many")).await?;
        on.until_refused("second-too-many", "NoChannelFree").await;
        on.until_event("first-too-many", "NoChannelFree").await;

        let freed = on.confirmed_channel("d7").await?;
        on.delete_within(Duration::from_secs(30), "d7").await?;
        let name = format!("imex-channel-{freed:04}");
        until("the channel cools down", async || {
            let released = on.channel_leases().await?.get(&name).copied();
            ensure!(released == Some(true), "{released:?}");
            ensure!(gauge("cooling")? == 1);
            Ok(())
        })
        .await;
        on.until_refused("first-too-many", "NoChannelFree").await;
        on.end_cool_down(freed).await?;
        on.until_ready("first-too-many").await;
        ensure!(on.confirmed_channel("first-too-many").await? == freed);
        on.until_refused("second-too-many", "NoChannelFree").await;
        // Deleted here: the limit at the end of a test is too short for so many.
        on.domains(&on.namespace)
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .map(drop)?;
        let gone = on.nothing_is_left_within(Duration::from_secs(300)).await?;
        Ok(format!(
            "{all} domains Ready after {}, gone after {}",
            seconds(took),
            seconds(gone)
        ))
    })
}

// req: CHANNEL-7
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn controllers_killed_at_any_moment_never_give_one_channel_twice() -> Result<()> {
    run_for(Duration::from_secs(300), async |on| {
        let (first, second) = on.start_two(isolated(256)).await?;
        let mut seen = Channels::default();
        for round in 0..10_u64 {
            let names: Vec<_> = (0..12).map(|i| format!("r{round}-{i}")).collect();
            for name in &names {
                on.create(&named(name)).await?;
            }
            // Somewhere in the middle of the work.
            sleep(Duration::from_millis(round * 17)).await;
            let leader = if on.leader().await? == "first" {
                &first
            } else {
                &second
            };
            leader.kill();
            for name in &names[..3] {
                on.delete_without_finalizers(name).await?;
            }
            leader.start()?;
            for name in &names[3..] {
                until(&format!("{name} is confirmed"), async || {
                    on.confirmed_channel(name).await.map(drop)
                })
                .await;
                seen.check_all(on).await?;
            }
        }
        Ok("10 rounds of 12 domains".to_owned())
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn late_writes_of_an_old_leader_change_no_channels() -> Result<()> {
    run(async |on| {
        let proxy = Proxy::start().await?;
        let kubeconfig = Some(through_proxy(on, &proxy, None)?);
        let (_first, _second) = on
            .start_two(Setup {
                kubeconfig,
                ..isolated(256)
            })
            .await?;
        let names = on.create_many(40).await?;
        until("a channel is assigned", async || {
            ensure!(!on.channel_leases().await?.is_empty());
            Ok(())
        })
        .await;
        proxy.hold();
        on.leads_within(TAKEOVER, "second").await?;
        let mut seen = Channels::default();
        for name in &names {
            until(&format!("{name} is confirmed"), async || {
                on.confirmed_channel(name).await.map(drop)
            })
            .await;
        }
        seen.check_all(on).await?;
        let held = proxy.release();
        ensure!(held > 0, "no write was held");
        throughout(LEASE, async || {
            for name in &names {
                on.confirmed_channel(name).await?;
            }
            Ok(())
        })
        .await?;
        seen.check_all(on).await?;
        // A Lease that the old leader has taken for a domain with another channel is released.
        within(TAKEOVER, "one channel for each domain", async || {
            let leases = on.channel_leases().await?;
            let held = leases.values().filter(|released| !**released).count();
            ensure!(held == names.len(), "{held} Leases have a holder");
            Ok(())
        })
        .await?;
        Ok(format!("{held} connections had a request held"))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn leases_that_somebody_deletes_are_made_again_and_nothing_new_is_given_meanwhile() -> Result<()> {
    run(async |on| {
        let controller = on.start_with(isolated(64)).await?;
        let names = on.create_many_ready(8).await?;
        let mut seen = Channels::default();
        seen.check_all(on).await?;
        controller.kill();
        let of_channels = ListParams::default().labels("resource.nvidia.com/imexChannel");
        on.leases()
            .delete_collection(&DeleteParams::default(), &of_channels)
            .await?;
        on.create(&named("new")).await?;
        controller.start()?;
        for name in &names {
            until(&format!("{name} is confirmed"), async || {
                on.confirmed_channel(name).await.map(drop)
            })
            .await;
        }
        seen.check_all(on).await?;
        on.until_refused("new", "ChannelsBeingRebuilt").await;
        // A restart keeps the state.
        controller.restart()?;
        controller.until_ready().await;
        throughout(Duration::from_secs(2), async || {
            ensure!(channel(&on.get("new").await?).is_none());
            Ok(())
        })
        .await?;
        for lease in on.leases().list(&of_channels).await? {
            let long_ago = json!({"metadata": {"annotations": {
                "resource.nvidia.com/imexChannelRebuilt": "2026-01-02T03:04:05Z",
            }}});
            on.leases()
                .patch(
                    &lease.name_any(),
                    &PatchParams::default(),
                    &Patch::Merge(long_ago),
                )
                .await?;
        }
        until("new is confirmed", async || {
            on.confirmed_channel("new").await.map(drop)
        })
        .await;
        seen.check_all(on).await?;
        Ok(String::new())
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_channel_that_somebody_writes_into_a_status_or_a_lease_confirms_nothing() -> Result<()> {
    run(async |on| {
        let controller = on.start_with(isolated(64)).await?;
        on.create_ready("owner").await?;
        let number = on.confirmed_channel("owner").await?;
        controller.kill();
        let thief = on.create(&named("thief")).await?;
        let stolen = json!({"status": {"status": "Ready", "channel": number}});
        on.domains(&on.namespace)
            .patch_status("thief", &PatchParams::default(), &Patch::Merge(stolen))
            .await?;
        // In addition, a foreign Lease has the name of another channel's.
        let foreign = json!({
            "metadata": {"name": format!("imex-channel-{:04}", number + 1)},
            "spec": {"holderIdentity": "other"},
        });
        on.leases()
            .create(&PostParams::default(), &serde_json::from_value(foreign)?)
            .await?;
        controller.start()?;
        let message = on.until_refused("thief", "ChannelNotConfirmed").await;
        ensure!(
            message.contains("owner") && message.contains(&thief),
            "{message}"
        );
        ensure!(on.confirmed_channel("owner").await? == number);
        on.create_ready("next").await?;
        let next = on.confirmed_channel("next").await?;
        ensure!(next == number + 2, "next has channel {next}");
        Ok(message)
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn domains_from_before_isolation_keep_channel_0_and_report_it() -> Result<()> {
    run(async |on| {
        let controller = on.start().await?;
        on.create_ready("old").await?;
        controller.kill();
        let controller = on.start_with(isolated(64)).await?;
        on.create_ready("new").await?;
        ensure!(on.confirmed_channel("new").await? == 1);
        until("old has the condition NotIsolated", async || {
            on.is_ready("old").await?;
            let old = on.get("old").await?;
            let conditions = old.data.pointer("/status/conditions");
            let conditions = conditions.and_then(|it| it.as_array()).context("none")?;
            let reported = conditions.iter().any(|it| it["type"] == "NotIsolated");
            ensure!(
                reported && channel(&old) == Some(0),
                "{}",
                old.data["status"]
            );
            Ok(())
        })
        .await;
        controller.kill();
        // And back: assigned channels stay.
        on.start().await?;
        on.create_ready("newest").await?;
        let newest = on.get("newest").await?;
        ensure!(channel(&newest).is_none(), "{}", newest.data["status"]);
        ensure!(channel(&on.get("new").await?) == Some(1));
        Ok(String::new())
    })
}

/// A deleted domain keeps its channel while its claims exist.
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_channel_is_not_released_while_claims_of_its_domain_exist() -> Result<()> {
    run(async |on| {
        let (_controller, _, number) = domain_gone_with_a_claim_left(on).await?;
        let name = format!("imex-channel-{number:04}");
        throughout(Duration::from_secs(3), async || {
            let released = on.channel_leases().await?.get(&name).copied();
            ensure!(released == Some(false), "{released:?}");
            Ok(())
        })
        .await?;
        delete_claims(on).await?;
        until("the channel cools down", async || {
            let released = on.channel_leases().await?.get(&name).copied();
            ensure!(released == Some(true), "{released:?}");
            Ok(())
        })
        .await;
        Ok(String::new())
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_lease_deleted_or_garbled_after_its_domain_keeps_its_channel() -> Result<()> {
    run(async |on| {
        let (_controller, uid, number) = domain_gone_with_a_claim_left(on).await?;
        let name = format!("imex-channel-{number:04}");
        let of_train = async |released: bool| {
            let spec = on.leases().get(&name).await?.spec.context("no spec")?;
            ensure!(
                spec.holder_identity.as_deref() == Some(&*uid)
                    && spec.renew_time.is_some() == released,
                "{spec:?}"
            );
            Ok(())
        };
        let delete = async || {
            let deleted = on.leases().delete(&name, &DeleteParams::default()).await;
            deleted.map(drop)
        };
        delete().await?;
        until("its Lease is restored", async || of_train(false).await).await;
        on.create_ready("next").await?;
        ensure!(on.confirmed_channel("next").await? != number);

        delete_claims(on).await?;
        until("the channel cools down", async || of_train(true).await).await;
        delete().await?;
        until("it is restored", async || of_train(true).await).await;
        // The API server accepts this time, but Rust's client cannot parse it.
        let end_of_time = json!({"spec": {"renewTime": "9999-12-31T23:59:59.000000Z"}});
        let garble = Patch::Merge(&end_of_time);
        let unread: kube::Api<kube::core::PartialObjectMeta<Lease>> =
            kube::Api::namespaced(on.client.clone(), &on.namespace);
        unread
            .patch(&name, &PatchParams::default(), &garble)
            .await?;
        until("it is released again", async || of_train(true).await).await;
        on.end_cool_down(number).await?;
        until("the channel is free", async || {
            ensure!(!on.channel_leases().await?.contains_key(&name));
            Ok(())
        })
        .await;
        Ok(String::new())
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_quota_on_leases_is_reported_and_raising_it_is_enough() -> Result<()> {
    run(async |on| {
        on.start_with(isolated(64)).await?;
        let quota = |count: u32| {
            json!({
                "apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": {"name": "quota", "namespace": on.namespace},
                "spec": {"hard": {"count/leases.coordination.k8s.io": count.to_string()}},
            })
        };
        let _quota = Applied::new(&[quota(0)])?;
        until("the quota is enforced", async || {
            let params = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let any: Lease = serde_json::from_value(json!({"metadata": {"name": "any"}}))?;
            ensure!(on.leases().create(&params, &any).await.is_err());
            Ok(())
        })
        .await;
        on.create(&named("train")).await?;
        let message = on.until_refused("train", "ChannelRefused").await;
        ensure!(message.contains("exceeded quota"), "{message}");
        let _raised = Applied::new(&[quota(100)])?;
        on.until_ready("train").await;
        Ok(message)
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn channels_of_groups_are_reserved_while_a_pool_or_a_claim_of_a_group_exists() -> Result<()> {
    run(async |on| {
        let pool = Applied::new(&[group_pool()])?;
        let controller = on.start_with(isolated(256)).await?;
        on.create_ready("a").await?;
        ensure!(on.confirmed_channel("a").await? == 128, "there is a pool");

        create_group_claim(on).await?;
        drop(pool);
        controller.restart()?; // checks immediately
        controller.until_ready().await;
        on.create_ready("b").await?;
        ensure!(on.confirmed_channel("b").await? == 129, "there is a claim");

        delete_claims(on).await?;
        controller.restart()?;
        let is_released = async || {
            let lease = on.leases().get(GROUP_LEASE).await?;
            let spec = lease.spec.context("an empty lease")?;
            ensure!(spec.renew_time.is_some(), "{spec:?}");
            Ok(())
        };
        until("the channels of groups cool down", is_released).await;
        on.create_ready("c").await?;
        ensure!(
            on.confirmed_channel("c").await? == 130,
            "the group's channels are still cooling down"
        );

        on.end_lease_cool_down(GROUP_LEASE).await?;
        controller.restart()?;
        controller.until_ready().await;
        on.create_ready("d").await?;
        ensure!(on.confirmed_channel("d").await? == 1);
        ensure!(on.leases().get_opt(GROUP_LEASE).await?.is_none());
        Ok(String::new())
    })
}

const GROUP_LEASE: &str = "imex-channels-of-groups";

const GROUP_POOL: &str = "clique-aaaaaaaa-0000-0000-0000-000000000001.7";

fn group_pool() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": "pool-of-a-group"},
        "spec": {
            "driver": "compute-domain.nvidia.com", "allNodes": true, "devices": [],
            "pool": {"name": GROUP_POOL, "generation": 1, "resourceSliceCount": 1},
        },
    })
}

/// Creates a claim allocated as by the scheduler.
async fn create_group_claim(on: &Fixture) -> Result<()> {
    create_claim(on, "no-domain").await?;
    let allocation = json!({"devices": {"results": [{
        "request": "channel", "driver": "compute-domain.nvidia.com",
        "pool": GROUP_POOL, "device": "channel-1",
    }]}});
    let status = json!({"status": {"allocation": allocation}});
    claims(on)
        .patch_status("left", &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

/// Returns the controller, and the deleted domain's UID and channel.
async fn domain_gone_with_a_claim_left(on: &Fixture) -> Result<(Controller, String, u64)> {
    let controller = on.start_with(isolated(64)).await?;
    let uid = on.create_ready("train").await?;
    let number = on.confirmed_channel("train").await?;
    create_claim(on, &uid).await?;
    until("the claim is known", async || {
        controller.ready() // the deletion below waits for its own effect
    })
    .await;
    on.delete_within(Duration::from_secs(30), "train").await?;
    Ok((controller, uid, number))
}

fn claims(on: &Fixture) -> kube::Api<k8s_openapi::api::resource::v1::ResourceClaim> {
    kube::Api::namespaced(on.client.clone(), &on.namespace)
}

async fn create_claim(on: &Fixture, uid: &str) -> Result<()> {
    let claim = json!({
        "metadata": {"name": "left", "labels": {"resource.nvidia.com/computeDomain": uid}},
        "spec": {"devices": {"requests": [
            {"name": "channel", "exactly": {"deviceClassName": "none"}},
        ]}},
    });
    claims(on)
        .create(&PostParams::default(), &serde_json::from_value(claim)?)
        .await?;
    Ok(())
}

async fn delete_claims(on: &Fixture) -> Result<()> {
    claims(on).delete("left", &DeleteParams::default()).await?;
    Ok(())
}
