//! A plugin that notes its calls, and a fake runtime for it.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod go_runtime;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use nri_plugin::api::{
    Container, ContainerAdjustment, ContainerUpdate, LinuxResources, PodSandbox,
    ValidateContainerAdjustmentRequest,
};
use nri_plugin::testing::{FakeRuntime, Options};
use nri_plugin::{
    Changes, Context, Creation, Events, Late, Plugin, Refusal, Runtime, Service, State,
};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Time limit of every wait.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Container names that select the behaviour of `create_container`.
pub const REFUSE: &str = "refuse";
pub const PANIC: &str = "panic";
pub const HANG: &str = "hang";
pub const SLOW: &str = "slow";
pub const LONG: &str = "long";

/// Notes its calls as `method thing`.
pub struct Notes {
    pub events: Events,
    sender: mpsc::UnboundedSender<String>,
    /// How often `configure` refuses before it accepts.
    pub refusals: Mutex<usize>,
}

pub struct Noted(mpsc::UnboundedReceiver<String>);

impl Notes {
    pub fn new(events: Events) -> (Self, Noted) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let refusals = Mutex::new(0);
        (
            Self {
                events,
                sender,
                refusals,
            },
            Noted(receiver),
        )
    }

    fn note(&self, method: &str, thing: &str) {
        let _ = self.sender.send(format!("{method} {thing}"));
    }
}

impl Noted {
    pub async fn next(&mut self) -> String {
        let next = tokio::time::timeout(LIMIT, self.0.recv());
        next.await.expect("the plugin was not called").unwrap()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Plugin for Notes {
    fn events(&self) -> Events {
        self.events
    }

    async fn configure(&self, _: &Context, config: &str, runtime: &Runtime) -> Result<(), Refusal> {
        self.note(
            "configure",
            &format!("{config:?} unknown: {}", runtime.unknown_events),
        );
        let mut refusals = self.refusals.lock().unwrap();
        if *refusals > 0 {
            *refusals -= 1;
            return Err(Refusal::new("not today"));
        }
        Ok(())
    }

    async fn synchronize(
        &self,
        _: &Context,
        pods: &[PodSandbox],
        containers: &[Container],
    ) -> Result<Vec<ContainerUpdate>, Refusal> {
        self.note(
            "synchronize",
            &format!("{} pods, {} containers", pods.len(), containers.len()),
        );
        Ok(vec![mk_update("synchronized")])
    }

    async fn run_pod_sandbox(&self, _: &Context, pod: &PodSandbox) -> Result<(), Refusal> {
        self.note("run_pod_sandbox", &pod.name);
        Ok(())
    }

    async fn update_pod_sandbox(
        &self,
        _: &Context,
        pod: &PodSandbox,
        _overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), Refusal> {
        let shares = resources.cpu.as_ref().and_then(|cpu| cpu.shares);
        let shares = shares.map_or(0, |shares| shares.value);
        self.note("update_pod_sandbox", &format!("{} {shares}", pod.name));
        Ok(())
    }

    async fn post_update_pod_sandbox(&self, _: &Context, pod: &PodSandbox) -> Result<(), Refusal> {
        self.note("post_update_pod_sandbox", &pod.name);
        Ok(())
    }

    async fn stop_pod_sandbox(&self, _: &Context, pod: &PodSandbox) -> Result<(), Refusal> {
        self.note("stop_pod_sandbox", &pod.name);
        Ok(())
    }

    async fn remove_pod_sandbox(&self, _: &Context, pod: &PodSandbox) -> Result<(), Refusal> {
        self.note("remove_pod_sandbox", &pod.name);
        Ok(())
    }

    async fn create_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Creation, Refusal> {
        let name = container.name.as_str();
        self.note("create_container", &format!("{}/{name}", pod.name));
        match name {
            REFUSE => return Err(Refusal::new("the container wants\nthe moon")),
            PANIC => panic!("a test of panics"),
            HANG => {
                // A task that outlives the call sees the cancellation, too.
                let (cancelled, notes) = (context.cancellation().clone(), self.sender.clone());
                tokio::spawn(async move {
                    cancelled.cancelled().await;
                    let _ = notes.send("cancelled hang".into());
                });
                std::future::pending::<()>().await;
            }
            SLOW => tokio::time::sleep(Duration::from_millis(300)).await,
            _ => {}
        }
        let length = if name == LONG { 1 << 20 } else { 5 };
        let adjustment = ContainerAdjustment::default().with_env("NOTE", "x".repeat(length));
        Ok(Creation {
            adjustment,
            changes: vec![mk_update("other")].into(),
        })
    }

    async fn post_create_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        self.note("post_create_container", &container.name);
        Ok(())
    }

    async fn start_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        self.note("start_container", &container.name);
        Ok(())
    }

    async fn post_start_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        self.note("post_start_container", &container.name);
        Ok(())
    }

    async fn update_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        container: &Container,
        resources: &LinuxResources,
    ) -> Result<Changes, Refusal> {
        let shares = resources.cpu.as_ref().and_then(|cpu| cpu.shares);
        let shares = shares.map_or(0, |shares| shares.value);
        self.note("update_container", &format!("{} {shares}", container.name));
        Ok(vec![mk_update("updated")].into())
    }

    async fn post_update_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        self.note("post_update_container", &container.name);
        Ok(())
    }

    async fn stop_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<Vec<ContainerUpdate>, Refusal> {
        self.note("stop_container", &container.name);
        Ok(vec![mk_update("heir")])
    }

    async fn remove_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        self.note("remove_container", &container.name);
        Ok(())
    }

    async fn validate(
        &self,
        _: &Context,
        request: &ValidateContainerAdjustmentRequest,
    ) -> Result<(), Refusal> {
        let container = request.container.clone().unwrap_or_default();
        self.note("validate", &container.name);
        if container.name == "invalid" {
            return Err(Refusal::new("this adjustment goes too far"));
        }
        Ok(())
    }
}

pub fn mk_update(container: &str) -> ContainerUpdate {
    ContainerUpdate {
        container_id: container.into(),
        ..Default::default()
    }
}

pub fn mk_pod(name: &str) -> PodSandbox {
    PodSandbox {
        id: format!("id-{name}"),
        name: name.into(),
        ..Default::default()
    }
}

pub fn mk_container(name: &str) -> Container {
    Container {
        id: format!("id-{name}"),
        name: name.into(),
        ..Default::default()
    }
}

/// A fake runtime with a registered plugin.
pub struct Node {
    pub runtime: FakeRuntime,
    pub service: Service,
    pub noted: Noted,
    pub socket: PathBuf,
    _directory: TempDir,
}

impl Node {
    pub async fn start(options: Options, late: Late) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nri.sock");
        let (plugin, mut noted) = Notes::new(Events::ALL);
        let runtime = FakeRuntime::start(&socket, options).unwrap();
        let service = Service::builder(7, "notes").socket(&socket).on_late(late);
        let service = service.start(plugin).unwrap();
        let registered = tokio::time::timeout(LIMIT, runtime.wait_registered());
        registered.await.expect("the plugin did not register");
        assert!(noted.next().await.starts_with("configure"));
        assert!(noted.next().await.starts_with("synchronize"));
        Self {
            runtime,
            service,
            noted,
            socket,
            _directory: directory,
        }
    }
}

/// Waits for a state.
pub async fn wait_state(service: &Service, wanted: impl FnMut(&State) -> bool) -> State {
    let mut state = service.state();
    let reached = tokio::time::timeout(LIMIT, state.wait_for(wanted));
    let reached = reached.await.expect("the state was not reached").unwrap();
    reached.clone()
}
