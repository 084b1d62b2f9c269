//! Registration of a plugin with kubelet, and its loss.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use dra_kubelet::{Method, PluginBuilder, Registration};

use crate::support::{Node, ScriptedDriver, run, seconds, until, within};

/// Starts and deletes a pod, each with one step of the driver.
async fn serves_a_pod(on: &Node, pod: &str) -> Result<()> {
    on.start_pod(pod).await?;
    on.until_running(pod).await;
    on.delete_and_wait(pod).await
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_plugin_registers_again_after_a_shutdown_and_after_a_kill() -> Result<()> {
    run("2", async |on| {
        let mut first = on.spawn_registered("d0").await?;
        serves_a_pod(on, "first").await?;
        first.terminate().await?;
        let started = std::time::Instant::now();
        let mut second = on.spawn_registered("d0").await?;
        let again = started.elapsed();
        serves_a_pod(on, "second").await?;
        second.kill()?;
        let started = std::time::Instant::now();
        let _third = on.spawn_registered("d0").await?;
        let killed = started.elapsed();
        serves_a_pod(on, "third").await?;
        Ok(format!(
            "registered {} after the start, {} after a kill -9",
            seconds(again),
            seconds(killed)
        ))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_plugin_registers_although_get_info_fails_first() -> Result<()> {
    run("3", async |on| {
        let proxy = on.proxy(&[1, 1])?;
        let script = ScriptedDriver::default();
        let settings = |builder: PluginBuilder| builder.registry_dir(&proxy.registry);
        let running = on.serve_as(&on.driver, &script, settings)?;
        running.until_registered(1).await;
        ensure!(
            proxy.remaining_cuts() == 0,
            "kubelet made {} calls too few",
            proxy.remaining_cuts()
        );
        serves_a_pod(on, "p").await?;
        Ok("two connections cut at the call, by a proxy".to_owned())
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_plugin_registers_although_notify_fails_first() -> Result<()> {
    run("4", async |on| {
        let proxy = on.proxy(&[2, 2])?;
        let script = ScriptedDriver::default();
        let settings = |builder: PluginBuilder| builder.registry_dir(&proxy.registry);
        let running = on.serve_as(&on.driver, &script, settings)?;
        until("a connection is cut", async || {
            ensure!(proxy.remaining_cuts() < 2, "not yet");
            Ok(())
        })
        .await;
        serves_a_pod(on, "p").await?;
        if proxy.remaining_cuts() == 1 && script.log().registered == 0 {
            return Ok("this kubelet keeps plugins that it could not notify; pods work".to_owned());
        }
        running.until_registered(1).await;
        ensure!(
            proxy.remaining_cuts() == 0,
            "kubelet made {} calls too few",
            proxy.remaining_cuts()
        );
        serves_a_pod(on, "q").await?;
        Ok("two connections cut at the call, by a proxy".to_owned())
    })
}

/// The socket file of the scenario's driver in its data directory.
fn service_socket(on: &Node) -> Result<PathBuf> {
    let directory = Path::new("/var/lib/kubelet/plugins").join(&on.driver);
    for entry in fs::read_dir(&directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "sock") {
            return Ok(path);
        }
    }
    anyhow::bail!("no socket in {}", directory.display())
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_service_that_is_unreachable_at_registration_works_once_it_is_reachable() -> Result<()> {
    run("14", async |on| {
        // The library listens before it registers, so the test removes the socket.
        let script = ScriptedDriver::default();
        let running = on.serve_as(&on.driver, &script, |builder| builder)?;
        // Before the first call of kubelet, which polls once a second.
        let lost = service_socket(on)?;
        fs::remove_file(&lost)?;
        until("the plugin has opened another socket", async || {
            ensure!(service_socket(on)? != lost, "the old one");
            Ok(())
        })
        .await;
        let mut state = running.plugin.registration();
        state.wait_for(Registration::is_registered).await?;
        serves_a_pod(on, "p").await?;
        let times = script.log().registered;
        Ok(format!(
            "registered {times} times; two sockets (the library always has two)"
        ))
    })
}

/// Replaces `directory` by a file, so that no socket can be created in it.
fn spoil(directory: &Path) -> Result<()> {
    let name = directory
        .file_name()
        .context("no name")?
        .to_string_lossy()
        .into_owned();
    fs::rename(directory, directory.with_file_name(format!("{name}.away")))?;
    fs::write(directory, "")?;
    Ok(())
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_permanent_loss_of_the_service_socket_is_reported() -> Result<()> {
    run("16", async |on| {
        let mut running = on.serve(&ScriptedDriver::default()).await?;
        let directory = Path::new("/var/lib/kubelet/plugins").join(&on.driver);
        spoil(&directory)?;
        let took = std::time::Instant::now();
        let error = running.plugin.failed().await;
        ensure!(error.code() == "socket-directory", "{error}");
        fs::remove_file(&directory)?;
        Ok(format!(
            "{} after {}",
            error.code(),
            seconds(took.elapsed())
        ))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_permanent_loss_of_the_registration_socket_is_reported() -> Result<()> {
    run("16", async |on| {
        // kubelet watches directories below its own, too.
        let registry = Path::new("/var/lib/kubelet/plugins_registry").join(&on.namespace);
        let script = ScriptedDriver::default();
        let mut running = on.serve_as(&on.driver, &script, |builder| {
            builder.registry_dir(&registry)
        })?;
        running.until_registered(1).await;
        spoil(&registry)?;
        let took = std::time::Instant::now();
        let error = running.plugin.failed().await;
        ensure!(error.code() == "socket-directory", "{error}");
        fs::remove_file(&registry)?;
        fs::remove_dir_all(registry.with_file_name(format!("{}.away", on.namespace)))?;
        Ok(format!(
            "{} after {}",
            error.code(),
            seconds(took.elapsed())
        ))
    })
}

/// The inodes of the service socket's open connections.
fn connections(on: &Node) -> Result<Vec<String>> {
    // The kernel keeps the name to which the socket was bound, before the file was renamed.
    let directory = format!("/var/lib/kubelet/plugins/{}/", on.driver);
    let table = fs::read_to_string("/proc/net/unix")?;
    // Num RefCount Protocol Flags Type St Inode Path; state 01 is the listener.
    let columns = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    Ok(columns
        .filter_map(|columns| match columns.as_slice() {
            [_, _, _, _, _, "03", inode, it] if it.starts_with(&directory) => {
                Some((*inode).to_owned())
            }
            _ => None,
        })
        .collect())
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn one_connection_carries_all_calls_and_the_health_stream() -> Result<()> {
    run("17", async |on| {
        let running = on.serve(&ScriptedDriver::default()).await?;
        // Without the feature, kubelet opens no stream, and only the calls use the connection.
        let streams = usize::from(on.shows_health().await?);
        until("the connection is established", async || {
            let open = running.script.log().streams.0;
            ensure!(open == streams, "{open} streams are open");
            ensure!(
                connections(on)?.len() == 1,
                "there are {:?}",
                connections(on)?
            );
            Ok(())
        })
        .await;
        let before = connections(on)?;
        for pod in ["p", "q"] {
            serves_a_pod(on, pod).await?;
        }
        let after = connections(on)?;
        ensure!(after == before, "{before:?} became {after:?}");
        ensure!(
            running.script.log().streams == (streams, streams),
            "the stream was reopened"
        );
        Ok(format!(
            "two pods, {streams} streams, the same socket inode"
        ))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_plugin_that_offers_only_v1beta1_serves_pods() -> Result<()> {
    run("v1beta1", async |on| {
        let script = ScriptedDriver::default();
        let running = on.serve_as(&on.driver, &script, PluginBuilder::only_v1beta1)?;
        running.until_registered(1).await;
        serves_a_pod(on, "p").await?;
        ensure!(
            (
                script.started(Method::Prepare),
                script.started(Method::Unprepare)
            ) == (1, 1),
            "{:?}",
            script.log().steps
        );
        Ok("prepared and unprepared once".to_owned())
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn sockets_are_recreated_in_an_emptied_registry_directory() -> Result<()> {
    run("sockets", async |on| {
        let running = on.serve(&ScriptedDriver::default()).await?;
        let registry = Path::new("/var/lib/kubelet/plugins_registry");
        for entry in fs::read_dir(registry)? {
            let path = entry?.path();
            if path.to_string_lossy().contains(&on.driver) {
                fs::remove_file(path)?;
            }
        }
        let took = within(Duration::from_secs(10), "a new registration", async || {
            ensure!(running.script.log().registered == 2, "not yet");
            Ok(())
        })
        .await?;
        serves_a_pod(on, "p").await?;
        Ok(format!("registered again after {}", seconds(took)))
    })
}

/// kubelet's authority is the socket's path. The plugin's server accepts it only because of the `@` in it.
#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_registration_socket_without_an_at_sign_in_its_name_is_not_answered() -> Result<()> {
    run("@", async |on| {
        let running = on.serve(&ScriptedDriver::default()).await?;
        let registry = Path::new("/var/lib/kubelet/plugins_registry");
        let entries = fs::read_dir(registry)?.collect::<Result<Vec<_>, _>>()?;
        let mut paths = entries.iter().map(fs::DirEntry::path);
        let socket = paths.find(|path| path.to_string_lossy().contains(&on.driver));
        let plain = registry.join(format!("{}-reg.sock", on.namespace));
        fs::hard_link(socket.context("the plugin has no socket")?, &plain)?;
        let name = plain.to_string_lossy();
        until("kubelet's log has a reset stream", async || {
            let lines = on.kubelet.lines_about(&name, 10);
            let is_reset =
                |line: &String| line.contains("RST_STREAM with error code: PROTOCOL_ERROR");
            ensure!(lines.iter().any(is_reset), "{lines:?}");
            Ok(())
        })
        .await;
        fs::remove_file(&plain)?;
        serves_a_pod(on, "p").await?;
        ensure!(
            running.script.log().registered == 1,
            "{:?}",
            running.script.log()
        );
        Ok("the name with an @ works throughout".to_owned())
    })
}
