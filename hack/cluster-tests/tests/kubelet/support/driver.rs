//! A driver in the test's process. The test sets its behaviour, and it records its calls.

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

/// The error of [`Behavior::Fail`], as in events.
pub(crate) const FAILURE: &str = "the test makes it fail";

/// The behaviour of a method of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Succeed,
    /// Fails with an error that ends the call at once, so that kubelet sees it.
    Fail,
    /// Fails with an error after which the library retries within the call.
    FailRetryable,
    /// Blocks until its behaviour is changed or the call is cancelled.
    Block,
}

/// The driver, and the handle to set its behaviour. Clones share the driver.
#[derive(Clone)]
pub(crate) struct ScriptedDriver(Arc<State>);

struct State {
    prepare: watch::Sender<Behavior>,
    unprepare: watch::Sender<Behavior>,
    log: Mutex<Log>,
}

/// Everything that has happened so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// Started steps, in order.
    pub(crate) steps: Vec<(Method, String)>,
    /// Ended calls of kubelet.
    pub(crate) calls: Vec<(Method, CallOutcome)>,
    /// The result of each claim of a call, by its name.
    pub(crate) answers: Vec<(Method, String, Result<(), String>)>,
    /// How often kubelet has registered the plugin.
    pub(crate) registered: usize,
    /// The number of open health streams, and of all streams so far.
    pub(crate) streams: (usize, usize),
}

impl Log {
    /// The number of started steps of the method.
    pub(crate) fn started(&self, method: Method) -> usize {
        self.steps.iter().filter(|(it, _)| *it == method).count()
    }
}

impl Default for ScriptedDriver {
    fn default() -> Self {
        Self(Arc::new(State {
            prepare: watch::Sender::new(Behavior::Succeed),
            unprepare: watch::Sender::new(Behavior::Succeed),
            log: Mutex::default(),
        }))
    }
}

impl ScriptedDriver {
    /// A driver with this behaviour of prepares.
    pub(crate) fn preparing(behavior: Behavior) -> Self {
        let script = Self::default();
        script.set(Method::Prepare, behavior);
        script
    }

    /// A driver with this behaviour of unprepares.
    pub(crate) fn unpreparing(behavior: Behavior) -> Self {
        let script = Self::default();
        script.set(Method::Unprepare, behavior);
        script
    }

    pub(crate) fn set(&self, method: Method, behavior: Behavior) {
        self.sender(method).send_replace(behavior);
    }

    pub(crate) fn log(&self) -> Log {
        self.with_log(|log| log.clone())
    }

    pub(crate) fn started(&self, method: Method) -> usize {
        self.with_log(|log| log.started(method))
    }

    /// Waits until `count` steps of the method were started.
    pub(crate) async fn until_started(&self, method: Method, count: usize) {
        until(&format!("{count} {method}s have started"), async || {
            let started = self.started(method);
            ensure!(started >= count, "there are {started}");
            Ok(())
        })
        .await;
    }

    fn sender(&self, method: Method) -> &watch::Sender<Behavior> {
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
                Behavior::Succeed => return Ok(()),
                Behavior::Fail => return Err(ClaimError::permanent(FAILURE)),
                Behavior::FailRetryable => {
                    return Err(ClaimError::retry("the test makes it fail, retryable"));
                }
                Behavior::Block => {}
            }
            tokio::select! {
                () = context.cancellation().cancelled() => return Err(ClaimError::retry("cancelled")),
                _ = act.changed() => {}
            }
        }
    }
}

impl Driver for ScriptedDriver {
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

impl Observer for ScriptedDriver {
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

/// A plugin of a [`ScriptedDriver`]. Dropping it stops it at once.
pub(crate) struct Running {
    pub(crate) plugin: Plugin,
    pub(crate) script: ScriptedDriver,
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
    /// Starts the scenario's driver, waits until it is registered and has published device `d0`.
    pub(crate) async fn serve(&self, script: &ScriptedDriver) -> Result<Running> {
        let running = self.serve_as(&self.driver, script, |builder| builder)?;
        running.until_registered(1).await;
        Ok(running)
    }

    /// Starts a driver with any name and more settings, without waiting.
    pub(crate) fn serve_as(
        &self,
        driver: &str,
        script: &ScriptedDriver,
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
