//! A fault from its begin to its end.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::api::Behaviour;
use crate::driver_root::HEALTHY;
use crate::matrix::{Fault, On};
use crate::node::Node;
use crate::strace::{Injection, Strace};

/// More temporary files than a process of these tests creates.
const TEMPORARIES: u32 = 64;

/// An active fault.
pub(crate) enum Armed {
    None,
    Calls(Strace),
    Api,
    Driver,
    Locked(File),
}

impl Armed {
    /// Begins a fault of the running plugin. [`Fault::Driver`] began before the plugin's start.
    pub(crate) async fn begin(node: &Node, fault: Option<Fault>) -> Self {
        match fault {
            None => Self::None,
            Some(Fault::Calls { names, on, how }) => {
                let injection = injection(node, names, on, how);
                let calls = node.path("calls");
                Self::Calls(Strace::attach(node.plugin.pid(), &injection, &calls).await)
            }
            Some(Fault::Api(requests, behaviour)) => {
                node.api.begin_fault(requests, behaviour);
                Self::Api
            }
            Some(Fault::KilledDuringRequest(requests)) => {
                node.api.begin_fault(requests, Behaviour::NeverAnswers);
                Self::Api
            }
            Some(Fault::Driver(_) | Fault::KilledWaitingFor(_)) => Self::Driver,
            Some(Fault::Locked) => {
                let lock = File::options().write(true).open(node.lock_file()).unwrap();
                lock.lock().unwrap();
                Self::Locked(lock)
            }
        }
    }

    /// Begins a fault, and restarts the dead plugin.
    pub(crate) async fn begin_and_start(node: &mut Node, fault: Option<Fault>) -> Self {
        if let Some(Fault::Calls { names, on, how }) = fault {
            let calls = node.path("calls");
            let wrapper = injection(node, names, on, how).wrapper(&calls);
            node.restart_below(&wrapper);
            return Self::Calls(Strace::around(node.plugin.pid(), &calls));
        }
        let armed = Self::begin(node, fault).await;
        node.restart();
        armed
    }

    /// Ends the fault after it has hit, which must happen within `limit`.
    pub(crate) async fn end(self, node: &Node, limit: Duration) {
        let hits = || match &self {
            Self::Calls(strace) => strace.hits(),
            Self::Api => node.api.hits(),
            // Visible in the result of the call.
            Self::None | Self::Driver | Self::Locked(_) => 1,
        };
        let began = Instant::now();
        while hits() == 0 {
            assert!(
                began.elapsed() < limit,
                "the fault did not hit: {}",
                self.seen()
            );
            sleep(Duration::from_millis(20)).await;
        }
        match self {
            Self::None => {}
            Self::Calls(strace) => strace.detach().await,
            Self::Api => node.api.end_fault(),
            Self::Driver => node.configure_driver(HEALTHY),
            Self::Locked(lock) => lock.unlock().unwrap(),
        }
    }

    fn seen(&self) -> String {
        match self {
            Self::Calls(strace) => strace.seen(),
            _ => String::new(),
        }
    }
}

fn injection(node: &Node, names: &'static str, on: On, how: &str) -> Injection {
    Injection {
        calls: names,
        paths: paths(node, on),
        how: how.to_owned(),
    }
}

fn paths(node: &Node, on: On) -> Vec<PathBuf> {
    let temporaries = |dir: PathBuf| {
        let pid = node.plugin.pid();
        let name = |number| dir.join(format!(".durable-{pid}-{number}.tmp"));
        (0..TEMPORARIES).map(name).collect()
    };
    match on {
        On::Data => vec![node.data()],
        On::DataTemporaries => temporaries(node.data()),
        On::Cdi => vec![node.cdi()],
        On::CdiTemporaries => temporaries(node.cdi()),
        On::Named(name) => vec![name.into()],
    }
}
