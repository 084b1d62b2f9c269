//! A driver in the test's own process that does as it is told, and counts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use dra_kubelet::{
    CallOutcome, Claim, ClaimError, ClaimRef, Context, DesiredPool, DeviceHealth, Driver,
    KubeClaims, Method, Observer, Plugin, PluginBuilder, PreparedDevice,
};
use k8s_openapi::api::resource::v1 as resource;
use tokio::sync::watch;

use super::{NODE, Node, until};

/// What a method of the driver does when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Succeed,
    /// An error that ends the call at once, so that kubelet sees it.
    Fail,
    /// An error that the library tries again inside the call.
    Waver,
    /// Nothing, until it is told otherwise or cancelled.
    Block,
}

/// The driver, and the one who tells it what to do. Clones are the same driver.
#[derive(Clone)]
pub(crate) struct Script(Arc<State>);

struct State {
    prepare: watch::Sender<Act>,
    unprepare: watch::Sender<Act>,
    log: Mutex<Log>,
}

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// Begun steps, in order.
    pub(crate) steps: Vec<(Method, String)>,
    /// kubelet's calls that have ended.
    pub(crate) calls: Vec<(Method, CallOutcome)>,
    /// How each claim of a call ended, by its name.
    pub(crate) answers: Vec<(Method, String, Result<(), String>)>,
    /// How often kubelet said that the plugin is registered.
    pub(crate) registered: usize,
    /// Health streams that are open, and that ever were.
    pub(crate) streams: (usize, usize),
}

impl Log {
    /// How many steps of the method were begun.
    pub(crate) fn begun(&self, method: Method) -> usize {
        self.steps.iter().filter(|(it, _)| *it == method).count()
    }
}

impl Default for Script {
    fn default() -> Self {
        Self(Arc::new(State {
            prepare: watch::Sender::new(Act::Succeed),
            unprepare: watch::Sender::new(Act::Succeed),
            log: Mutex::default(),
        }))
    }
}

impl Script {
    /// A driver whose next prepares do `act`.
    pub(crate) fn preparing(act: Act) -> Self {
        let script = Self::default();
        script.set(Method::Prepare, act);
        script
    }

    /// A driver whose next unprepares do `act`.
    pub(crate) fn unpreparing(act: Act) -> Self {
        let script = Self::default();
        script.set(Method::Unprepare, act);
        script
    }

    pub(crate) fn set(&self, method: Method, act: Act) {
        self.sender(method).send_replace(act);
    }

    pub(crate) fn log(&self) -> Log {
        self.with_log(|log| log.clone())
    }

    pub(crate) fn begun(&self, method: Method) -> usize {
        self.with_log(|log| log.begun(method))
    }

    /// Waits until that many steps of the method were begun.
    pub(crate) async fn until_begun(&self, method: Method, count: usize) {
        until(&format!("{count} {method}s have begun"), async || {
            let begun = self.begun(method);
            ensure!(begun >= count, "there are {begun}");
            Ok(())
        })
        .await;
    }

    fn sender(&self, method: Method) -> &watch::Sender<Act> {
        match method {
            Method::Prepare => &self.0.prepare,
            Method::Unprepare => &self.0.unprepare,
        }
    }

    fn with_log<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        change(&mut self.0.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn act(&self, method: Method, context: &Context, uid: &str) -> Result<(), ClaimError> {
        self.with_log(|log| log.steps.push((method, uid.to_owned())));
        let mut act = self.sender(method).subscribe();
        loop {
            match *act.borrow_and_update() {
                Act::Succeed => return Ok(()),
                Act::Fail => return Err(ClaimError::permanent("told to fail")),
                Act::Waver => return Err(ClaimError::retry("told to waver")),
                Act::Block => {}
            }
            tokio::select! {
                () = context.cancellation().cancelled() => return Err(ClaimError::retry("cancelled")),
                _ = act.changed() => {}
            }
        }
    }
}

impl Driver for Script {
    async fn prepare(
        &self,
        context: &Context,
        claim: &Claim,
    ) -> Result<Vec<PreparedDevice>, ClaimError> {
        self.act(Method::Prepare, context, &claim.id.uid).await?;
        let results = claim.results.iter();
        Ok(results
            .map(|it| PreparedDevice::from_result(it, Vec::new()))
            .collect())
    }

    async fn unprepare(&self, context: &Context, claim: &ClaimRef) -> Result<(), ClaimError> {
        self.act(Method::Unprepare, context, &claim.uid).await
    }
}

impl Observer for Script {
    fn call_finished(&self, method: Method, end: CallOutcome, _: Duration) {
        self.with_log(|log| log.calls.push((method, end)));
    }

    fn claim_finished(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        _: Duration,
    ) {
        let outcome = outcome.map_err(ToString::to_string);
        self.with_log(|log| log.answers.push((method, claim.name.clone(), outcome)));
    }

    fn registration_changed(&self, state: &dra_kubelet::Registration) {
        if state.is_registered() {
            self.with_log(|log| log.registered += 1);
        }
    }

    fn health_stream_changed(&self, open: bool) {
        self.with_log(|log| {
            let (now, ever) = &mut log.streams;
            if open {
                *now += 1;
                *ever += 1;
            } else {
                *now = now.saturating_sub(1);
            }
        });
    }
}

/// A plugin of a [`Script`]. Dropped, it stops at once.
pub(crate) struct Running {
    pub(crate) plugin: Plugin,
    pub(crate) script: Script,
    pub(crate) health: watch::Sender<Vec<DeviceHealth>>,
    _devices: watch::Sender<DesiredPool>,
}

impl Running {
    /// Waits until kubelet has registered it `count` times.
    pub(crate) async fn until_registered(&self, count: usize) {
        until(&format!("{count} registrations"), async || {
            let times = self.script.log().registered;
            ensure!(times >= count, "there are {times}");
            Ok(())
        })
        .await;
    }

    pub(crate) async fn shutdown(self) {
        self.plugin.shutdown().await;
    }
}

impl Node {
    /// The scenario's driver, registered, with device `d0` published.
    pub(crate) async fn serve(&self, script: &Script) -> Result<Running> {
        let running = self.serve_as(&self.driver, script, |builder| builder)?;
        running.until_registered(1).await;
        Ok(running)
    }

    /// A driver of any name, with more settings; not waited for.
    pub(crate) fn serve_as(
        &self,
        driver: &str,
        script: &Script,
        settings: impl FnOnce(PluginBuilder) -> PluginBuilder,
    ) -> Result<Running> {
        let device = resource::Device {
            name: "d0".to_owned(),
            ..Default::default()
        };
        let (devices, desired) = watch::channel(DesiredPool::Devices(vec![device]));
        let (sender, receiver) = watch::channel(Vec::new());
        let builder = Plugin::builder(driver, NODE)
            .publish(self.client.clone(), desired)
            .health(receiver)
            .observer(script.clone());
        let claims = KubeClaims::new(self.client.clone());
        Ok(Running {
            plugin: settings(builder).start(script.clone(), claims)?,
            script: script.clone(),
            health: sender,
            _devices: devices,
        })
    }
}
