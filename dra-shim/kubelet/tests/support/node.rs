//! A node: the fake kubelet, plugins on it, and pods.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dra_kubelet::testing::{Event, FakeKubelet, Options, Phase, Pod, PodClaim, Times};
use dra_kubelet::{ClaimError, ClaimRef, ClaimSource, Method, Observer, Plugin, PluginBuilder};
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};

use super::{Claims, DRIVER, Script, devices, soon};

pub struct Node {
    /// The first field, so that it is dropped first: it does not wait for a plugin's end.
    pub kubelet: FakeKubelet,
    pub root: TempDir,
}

impl Node {
    pub fn new() -> Self {
        Self::with(Times::fast())
    }

    pub fn with(times: Times) -> Self {
        let options = Options {
            times,
            ..Options::default()
        };
        Self::with_options(options)
    }

    pub fn with_options(options: Options) -> Self {
        let root = tempfile::tempdir().unwrap();
        let kubelet = FakeKubelet::start(root.path(), options).unwrap();
        Self { kubelet, root }
    }

    pub fn start(&self, driver: Script, claims: impl ClaimSource) -> Plugin {
        self.start_with(DRIVER, driver, claims, |builder| builder)
    }

    pub fn start_with(
        &self,
        name: &str,
        driver: Script,
        claims: impl ClaimSource,
        settings: impl FnOnce(PluginBuilder) -> PluginBuilder,
    ) -> Plugin {
        let builder = Plugin::builder(name, "n1").kubelet_root(self.root.path());
        settings(builder).start(driver, claims).unwrap()
    }

    /// Starts a plugin, and waits until kubelet has registered it.
    pub async fn registered(&self, driver: Script, claims: impl ClaimSource) -> Plugin {
        let plugin = self.start(driver, claims);
        soon("the registration", self.kubelet.wait_registered(DRIVER)).await;
        plugin
    }

    pub async fn until(&self, what: &str, condition: impl FnMut(&[Event]) -> bool + Send) {
        soon(what, self.kubelet.wait_until(condition)).await;
    }

    pub async fn until_failed(&self, pod: &str) {
        let failed = |event: &Event| matches!(event, Event::PrepareFailed { pod: it, .. } | Event::UnprepareFailed { pod: it, .. } if it == pod);
        self.until("a failure", |events| events.iter().any(failed))
            .await;
    }

    /// The number of calls that kubelet has sent.
    pub fn calls(&self, wanted: Method) -> usize {
        let events = self.kubelet.events();
        let is_wanted =
            |event: &&Event| matches!(event, Event::Called { method, .. } if *method == wanted);
        events.iter().filter(is_wanted).count()
    }

    /// Checks that kubelet's next call for the claim is answered with its devices.
    pub async fn prepares(&self, claim: &str) {
        let answers = self.kubelet.prepare(DRIVER, &[claim_ref(claim)]).await;
        let answers = answers.unwrap();
        assert!(answers[&format!("uid-{claim}")].is_ok(), "{answers:?}");
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }
}

pub fn claim_ref(name: &str) -> ClaimRef {
    ClaimRef {
        namespace: "ns".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

/// A pod with claims of the driver under test.
pub fn pod(uid: &str, claims: &[&str]) -> Pod {
    pod_of(uid, claims, &[DRIVER])
}

pub fn pod_of(uid: &str, claims: &[&str], drivers: &[&str]) -> Pod {
    let claim = |name: &&str| PodClaim {
        claim: claim_ref(name),
        drivers: drivers.iter().map(|&it| it.to_owned()).collect(),
    };
    Pod {
        uid: uid.into(),
        claims: claims.iter().map(claim).collect(),
    }
}

pub async fn reaches(pod: &mut watch::Receiver<Phase>, phase: Phase) {
    let what = format!("{phase:?}");
    soon(&what, pod.wait_for(|it| *it == phase)).await.unwrap();
}

/// The behaviour of a driver's next steps; all later steps succeed.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    Fail,
    /// Wait for [`Steps::release`], or for the cancellation of the attempt.
    Block,
}

/// Scripts by method, which the test changes while the driver runs.
#[derive(Clone, Default)]
pub struct Plan {
    pub prepare: Steps,
    pub unprepare: Steps,
}

#[derive(Clone)]
pub struct Steps(Arc<Mutex<(VecDeque<Next>, usize)>>, Arc<Semaphore>);

impl Default for Steps {
    fn default() -> Self {
        Self(Arc::default(), Arc::new(Semaphore::new(0)))
    }
}

impl Steps {
    pub fn next_are(&self, steps: &[Next]) {
        self.0.lock().unwrap().0 = steps.iter().copied().collect();
    }

    /// The number of steps that have begun.
    pub fn begun(&self) -> usize {
        self.0.lock().unwrap().1
    }

    /// Lets one blocked step continue.
    pub fn release(&self) {
        self.1.add_permits(1);
    }

    async fn step(&self) -> Result<(), ClaimError> {
        let next = {
            let mut steps = self.0.lock().unwrap();
            steps.1 += 1;
            steps.0.pop_front()
        };
        match next {
            None => Ok(()),
            Some(Next::Fail) => Err(ClaimError::permanent("broken on purpose")),
            Some(Next::Block) => {
                self.1.acquire().await.unwrap().forget();
                Ok(())
            }
        }
    }
}

impl Plan {
    pub fn driver(&self) -> Script {
        let (prepare, unprepare) = (self.prepare.clone(), self.unprepare.clone());
        let mut script = Script::preparing(move |context, claim| {
            let prepare = prepare.clone();
            async move {
                // A blocked step ends when it is cancelled.
                tokio::select! {
                    step = prepare.step() => step?,
                    () = context.cancellation().cancelled() => return Err(ClaimError::retry("cancelled")),
                }
                Ok(devices(&claim))
            }
        });
        script.unprepare = Box::new(move |_, _| {
            let unprepare = unprepare.clone();
            Box::pin(async move { unprepare.step().await })
        });
        script
    }
}

/// kubelet's times with a short timeout for calls, for steps that hang.
pub fn short_calls() -> Times {
    Times {
        call: Duration::from_secs(1),
        ..Times::fast()
    }
}

/// Counts the calls that have reached the plugin.
#[derive(Clone, Default)]
pub struct Arrivals(Arc<Mutex<Vec<Method>>>);

impl Observer for Arrivals {
    fn call_started(&self, method: Method) {
        self.0.lock().unwrap().push(method);
    }
}

impl Arrivals {
    pub fn of(&self, wanted: Method) -> usize {
        let arrived = self.0.lock().unwrap();
        arrived.iter().filter(|method| **method == wanted).count()
    }
}

pub fn claims(names: &[&str]) -> Claims {
    Claims::allocated(names)
}
