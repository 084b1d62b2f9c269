//! Errors of failed registrations, for the author of a plugin.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use nri_plugin::api::{Container, ContainerUpdate, PodSandbox};
use nri_plugin::testing::{FakeRuntime, Options};
use nri_plugin::{
    Context, Events, Late, Plugin, Refusal, Runtime, Service, ServiceBuilder, StartError, State,
};

use crate::support::wait_state;

/// Panics or hangs before it is registered.
#[derive(Clone, Copy, PartialEq)]
enum Odd {
    PanicsInConfigure,
    PanicsInSynchronize,
    HangsInConfigure,
    HangsInSynchronize,
}

#[cfg(test)]
impl Plugin for Odd {
    fn events(&self) -> Events {
        Events::ALL
    }

    async fn configure(&self, _: &Context, _: &str, _: &Runtime) -> Result<(), Refusal> {
        match self {
            Self::PanicsInConfigure => panic!("a test of panics"),
            Self::HangsInConfigure => std::future::pending().await,
            _ => Ok(()),
        }
    }

    async fn synchronize(
        &self,
        _: &Context,
        _: &[PodSandbox],
        _: &[Container],
    ) -> Result<Vec<ContainerUpdate>, Refusal> {
        match self {
            Self::PanicsInSynchronize => panic!("a test of panics"),
            _ => std::future::pending().await,
        }
    }
}

fn mk_builder(socket: &Path) -> ServiceBuilder {
    Service::builder(7, "odd").socket(socket)
}

async fn wait_failed(service: &Service) -> State {
    let has_failed = |state: &State| matches!(state, State::Connecting(Some(_)));
    wait_state(service, has_failed).await
}

#[tokio::test]
async fn a_registration_that_fails_in_the_plugin_reports_the_plugin_as_the_cause() {
    for (odd, code, text) in [
        (
            Odd::PanicsInConfigure,
            "panicked",
            "the plugin's configure panicked",
        ),
        (
            Odd::PanicsInSynchronize,
            "panicked",
            "the plugin's synchronize panicked",
        ),
        (
            Odd::HangsInConfigure,
            "late",
            "the plugin's configure did not return within 0.45 s",
        ),
        (
            Odd::HangsInSynchronize,
            "late",
            "the plugin's synchronize did not return within 0.45 s",
        ),
    ] {
        for late in [Late::Allow, Late::Refuse] {
            let directory = tempfile::tempdir().unwrap();
            let socket = directory.path().join("nri.sock");
            let options = Options {
                request_timeout: Duration::from_millis(500),
                patience: Duration::from_secs(60),
                ..Default::default()
            };
            let runtime = FakeRuntime::start(&socket, options).unwrap();
            let service = mk_builder(&socket).on_late(late).start(odd).unwrap();
            let State::Connecting(Some(error)) = wait_failed(&service).await else {
                panic!("registered")
            };
            assert_eq!((error.code(), error.to_string().as_str()), (code, text));
            let hint = if code == "late" {
                "separate task"
            } else {
                "panic"
            };
            assert!(error.hint().contains(hint), "{}", error.hint());
            // The runtime gets the error, too.
            assert_eq!(runtime.failures().first().map(String::as_str), Some(text));
        }
    }
}

#[tokio::test]
async fn the_state_has_the_operating_systems_reason_and_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let ended = directory.path().join("ended.sock");
    drop(UnixListener::bind(&ended).unwrap());
    std::fs::write(directory.path().join("file"), "").unwrap();
    for (name, reason, hint) in [
        ("no.sock", "No such file or directory", "enable NRI"),
        ("ended.sock", "Connection refused", "start the runtime"),
        ("file/nri.sock", "Not a directory", "check that the path"),
    ] {
        let socket = directory.path().join(name);
        let service = mk_builder(&socket).start(Odd::HangsInConfigure).unwrap();
        assert_eq!(service.state().borrow().to_string(), "connecting");
        let text = wait_failed(&service).await.to_string();
        let begins = format!(
            "not registered: cannot connect to {}: {reason}",
            socket.display()
        );
        assert!(text.starts_with(&begins) && text.contains(hint), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_reason_does_not_change_the_state() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nri.sock");
    let service = mk_builder(&socket).start(Odd::HangsInConfigure).unwrap();
    let mut state = service.state();
    state.changed().await.unwrap();
    // Sixty retries, one a second.
    let again = tokio::time::timeout(Duration::from_secs(60), state.changed()).await;
    assert!(again.is_err(), "{}", *state.borrow());
    drop(UnixListener::bind(&socket).unwrap());
    state.changed().await.unwrap();
    let text = state.borrow().to_string();
    assert!(text.contains("Connection refused"), "{text}");
}

#[tokio::test]
async fn an_invalid_socket_path_fails_the_start() {
    let longest = format!("/{}", "x".repeat(106));
    mk_builder(Path::new(&longest))
        .start(Odd::HangsInConfigure)
        .unwrap()
        .shutdown()
        .await;
    for path in [format!("{longest}x"), String::new()] {
        let error = mk_builder(Path::new(&path)).start(Odd::HangsInConfigure);
        let error = error.err().expect("it was started");
        assert!(matches!(error, StartError::Socket { .. }), "{error}");
        assert!(error.to_string().contains(&format!("{path:?}")), "{error}");
    }
}
