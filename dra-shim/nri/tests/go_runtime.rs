//! Tests with NRI in Go, in the versions of containerd 1.7 to 2.3.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use nri_plugin::{Changes, Events, Late, Service, State};
use serde_json::json;

use crate::support::go_runtime::{GoRuntime, VERSIONS, program};
use crate::support::{HANG, LIMIT, LONG, Notes, PANIC, REFUSE, mk_update, wait_state};

/// 5 MB of pods if parts are possible (since NRI 0.8), else less than one message.
#[cfg(test)]
fn pods(nri: &str) -> usize {
    if nri == "0.6.1" { 1000 } else { 2500 }
}

// req: NRI-9
#[tokio::test]
async fn every_version_registers_synchronizes_calls_and_restarts() {
    for version in VERSIONS {
        let Some(program) = program(version) else {
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nri.sock");
        let pods = pods(version.nri);
        let none = directory.path().join("plugins");
        let start = || GoRuntime::start(&program, &socket, &none, version, pods);
        let mut runtime = start().await;

        let (plugin, mut noted) = Notes::new(Events::ALL);
        let service = Service::builder(20, "notes")
            .socket(&socket)
            .on_late(Late::Refuse);
        let service = service.start(plugin).unwrap();
        let synchronized = runtime.next().await;
        let expected = json!({"what": "synchronized", "updates": ["synchronized"]});
        assert_eq!(synchronized, expected, "{version:?}");
        assert!(noted.next().await.starts_with("configure"), "{version:?}");
        assert_eq!(
            noted.next().await,
            format!("synchronize {pods} pods, 0 containers")
        );
        let State::Registered(registered) = wait_state(&service, State::is_registered).await else {
            panic!("not registered")
        };
        assert_eq!(registered.version, version.of_runtime);
        let validates = registered.events.contains(Events::VALIDATE);
        assert_eq!(
            validates,
            matches!(version.nri, "0.11.0" | "0.12.0"),
            "{version:?}"
        );

        exchange(&mut runtime, &mut noted, validates).await;

        // The runtime does not name the failed update, only reports a failure.
        let changes = Changes::from(vec![mk_update("good"), mk_update("bad")]);
        let updates = service.updates();
        let (failed, report) = tokio::join!(updates.update(changes), runtime.next());
        assert_eq!(failed.unwrap(), [mk_update("bad")], "{version:?}");
        assert_eq!(
            report,
            json!({"what": "update", "updates": ["good", "bad"]})
        );

        runtime.kill().await;
        wait_state(&service, |state| !state.is_registered()).await;
        let mut runtime = start().await;
        let listening = Instant::now();
        assert_eq!(runtime.next().await["what"], "synchronized");
        let took = listening.elapsed();
        assert!(took < Duration::from_secs(2), "{version:?}: {took:?}");
        assert_eq!(first_creation(&mut runtime).await["env"]["NOTE"], "xxxxx");
        service.shutdown().await;
        assert_eq!(
            runtime.ask("create", "without", 0).await["env"],
            json!(null)
        );
    }
}

/// The first creation that calls the plugin: it is in the runtime's list a moment after its
/// synchronization.
#[cfg(test)]
async fn first_creation(runtime: &mut GoRuntime) -> serde_json::Value {
    let begun = Instant::now();
    loop {
        let created = runtime.ask("create", "one", 0).await;
        if !created["env"]
            .as_object()
            .is_none_or(serde_json::Map::is_empty)
        {
            return created;
        }
        assert!(
            begun.elapsed() < LIMIT,
            "the plugin is not called: {}",
            runtime.log()
        );
    }
}

/// One answer of each kind, in one registration.
#[cfg(test)]
async fn exchange(runtime: &mut GoRuntime, noted: &mut crate::support::Noted, validates: bool) {
    let expect_validation = async |noted: &mut crate::support::Noted, name: &str| {
        if validates {
            assert_eq!(noted.next().await, format!("validate {name}"));
        }
    };
    let created = first_creation(runtime).await;
    assert_eq!(created["env"], json!({"NOTE": "xxxxx"}));
    assert_eq!(created["updates"], json!(["other"]));
    assert_eq!(noted.next().await, "create_container pod/one");
    expect_validation(noted, "one").await;

    // Lengths around the size at which a message gets another frame; then a long message and a long answer.
    for bytes in [3900, 4000, 4096, 5000, 8192, 100_000, 3 << 20] {
        let created = runtime.ask("create", "large", bytes).await;
        assert_eq!(created["env"]["NOTE"], "xxxxx", "{bytes}: {created}");
        assert_eq!(noted.next().await, "create_container pod/large");
        expect_validation(noted, "large").await;
    }
    let created = runtime.ask("create", LONG, 0).await;
    assert_eq!(created["env"]["NOTE"].as_str().unwrap().len(), 1 << 20);
    assert_eq!(noted.next().await, "create_container pod/long");
    expect_validation(noted, LONG).await;

    let refused = runtime.ask("create", REFUSE, 0).await;
    assert_eq!(
        refused["error"],
        "rpc error: code = Unknown desc = the container wants the moon"
    );
    assert_eq!(noted.next().await, "create_container pod/refuse");
    let refused = runtime.ask("create", PANIC, 0).await;
    assert_eq!(
        refused["error"],
        "rpc error: code = Unknown desc = the plugin panicked in CreateContainer"
    );
    assert_eq!(noted.next().await, "create_container pod/panic");
    let late = runtime.ask("create", HANG, 0).await;
    let sentence =
        "rpc error: code = Unknown desc = the NRI plugin 20-notes did not respond within 1.8 s";
    assert_eq!(late["error"], sentence);
    assert_eq!(noted.next().await, "create_container pod/hang");
    assert_eq!(noted.next().await, "cancelled hang");

    assert_eq!(runtime.ask("run", "", 0).await, json!({"what": "run"}));
    assert_eq!(noted.next().await, "run_pod_sandbox pod");
    assert_eq!(
        runtime.ask("start", "two", 0).await,
        json!({"what": "start"})
    );
    assert_eq!(noted.next().await, "start_container two");
    let stopped = runtime.ask("stop", "three", 0).await;
    assert_eq!(stopped, json!({"what": "stop", "updates": ["heir"]}));
    assert_eq!(noted.next().await, "stop_container three");
}

#[tokio::test]
async fn a_plugin_that_the_runtime_starts_uses_its_connection() {
    for version in VERSIONS {
        let Some(program) = program(version) else {
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        let plugins = directory.path().join("plugins");
        std::fs::create_dir(&plugins).unwrap();
        let script = plugins.join("05-launched");
        let this = std::env::current_exe().unwrap();
        let text = format!(
            "#!/bin/sh\nexec {} --ignored --exact go_runtime::as_a_plugin\n",
            this.display()
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();

        let socket = directory.path().join("nri.sock");
        let mut runtime = GoRuntime::start(&program, &socket, &plugins, version, 1).await;
        let created = runtime.ask("create", "one", 0).await;
        assert_eq!(
            created["env"],
            json!({"NOTE": "xxxxx"}),
            "{version:?}: {}",
            runtime.log()
        );
    }
}

/// The program that the runtime of the test above starts.
#[tokio::test]
#[ignore = "no test: a program that a runtime starts"]
async fn as_a_plugin() {
    let (plugin, _noted) = Notes::new(Events::CREATE_CONTAINER);
    // The runtime has put an index and a name into the environment.
    let mut service = Service::builder(99, "unused").start(plugin).unwrap();
    service.ended().await;
}
