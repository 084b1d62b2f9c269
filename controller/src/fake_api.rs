//! An in-memory API server for tests: the parts that the controller needs, with the rules about
//! versions, UIDs, generations, finalizers and preconditions.
//!
//! ```text
//! kube::Client ─> client ─> request ─────> faults ─────> verbs ─> store ─> watch (bodies)
//!                 deadlines  which call    injected       what Kubernetes does with it
//!                            it is         faults
//! ```
//!
//! Time is tokio's, which tests pause. Every request is recorded, so that tests can count them.

mod answer;
mod apply;
mod call;
mod client;
mod faults;
mod patch;
mod request;
mod resource;
mod store;
mod user;
mod verbs;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch as changes;
use tokio::time::{Instant, sleep, timeout};

pub(crate) use self::call::Call;
use self::faults::Faults;
pub(crate) use self::faults::{Fault, Rule};
use self::request::Request;
pub(crate) use self::resource::Resource;
use self::store::{Snapshot, Store};

/// How long a test waits at most, by the paused clock.
const GIVE_UP: Duration = Duration::from_secs(20 * 60);

/// The API server of one test. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub(crate) struct FakeApi {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Counts changes, so that watches and tests need not poll.
    changes: changes::Sender<u64>,
}

/// The server's state.
#[derive(Default)]
struct State {
    store: Store,
    faults: Faults,
    requests: Vec<Recorded>,
    /// The conditions and nodes that each manager applied last, by the object's UID.
    applied: HashMap<(String, String), Vec<patch::Item>>,
    /// The managers that have applied a label of a node, by the node's name and the label.
    label_owners: HashMap<(String, String), BTreeSet<String>>,
    /// The requests that match no [`Call`].
    unknown: Vec<String>,
    /// The open watches.
    watches: Vec<Call>,
    /// Whether the server is down.
    down: bool,
    /// Maximum delay of a request, and of its response.
    latency: Option<Duration>,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) call: Call,
    /// Its object's namespace; empty for all namespaces.
    pub(crate) namespace: String,
    /// Its object's name, if it is about an existing one.
    pub(crate) name: String,
    pub(crate) at: Instant,
    request: Request,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            call,
            namespace,
            name,
            ..
        } = self;
        write!(f, "{call:?} {namespace}/{name}")
    }
}

// === impl FakeApi ===

impl FakeApi {
    /// A server without objects.
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                changes: changes::Sender::new(0),
            }),
        }
    }

    /// From now on, each request and each response takes a random time up to this.
    pub(crate) fn set_latency(&self, latency: Duration) {
        self.state().latency = Some(latency);
    }

    /// Stops the server, with all connections, or starts it again.
    pub(crate) fn set_down(&self, down: bool) {
        self.state().down = down;
        self.changed();
    }

    /// Takes a backup, as an administrator does.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state().store.snapshot()
    }

    /// Restores a backup, as an administrator does.
    pub(crate) fn restore(&self, snapshot: Snapshot) {
        self.state().store.restore(snapshot);
    }

    /// Adds a fault.
    pub(crate) fn break_with(&self, rule: Rule) {
        self.state().faults.add(rule);
    }

    /// From now on, this fraction of all requests fails, with random faults.
    pub(crate) fn break_at_random(&self, part: f64) {
        self.state().faults.set_random(part);
    }

    /// Removes all faults.
    pub(crate) fn heal(&self) {
        self.state().faults = Faults::default();
    }

    /// Number of faults since the last [`FakeApi::heal`].
    pub(crate) fn faults_fired(&self) -> usize {
        self.state().faults.fired()
    }

    /// The requests since the last [`FakeApi::forget_requests`], in order.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.state().requests.clone()
    }

    pub(crate) fn forget_requests(&self) {
        self.state().requests.clear();
    }

    /// The calls of all requests, without watches, which are renewed every five minutes, and events,
    /// which are written when their writer has time.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let requests = &self.state().requests;
        let calls = requests.iter().map(|request| request.call);
        let other = |call: &Call| *call != Call::PostEvent && !call.is_watch();
        calls.filter(other).collect()
    }

    pub(crate) fn count(&self, call: Call) -> usize {
        self.count_where(|it| it == call)
    }

    fn count_where(&self, is: impl Fn(Call) -> bool) -> usize {
        let requests = &self.state().requests;
        requests.iter().filter(|request| is(request.call)).count()
    }

    /// Serves a recorded request late, or once more.
    pub(crate) fn replay(&self, recorded: &Recorded) {
        self.state().serve(&recorded.request);
        self.changed();
    }

    /// The times of these calls.
    pub(crate) fn times(&self, call: Call) -> Vec<Instant> {
        let requests = &self.state().requests;
        let of_call = requests.iter().filter(|request| request.call == call);
        of_call.map(|request| request.at).collect()
    }

    /// Number of requests that change something, without events.
    pub(crate) fn writes(&self) -> usize {
        self.count_where(Call::is_write)
    }

    /// Number of lists.
    pub(crate) fn lists(&self) -> usize {
        self.count_where(Call::is_list)
    }

    /// Number of open watches of this kind.
    pub(crate) fn open_watches(&self, call: Call) -> usize {
        let watches = &self.state().watches;
        watches.iter().filter(|open| **open == call).count()
    }

    /// Waits until a condition is true.
    ///
    /// # Panics
    /// If it does not become true, or if the server got an unknown request.
    pub(crate) async fn until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        let wait = async {
            while !is_true(self) {
                let unknown = self.state().unknown.clone();
                assert_eq!(unknown, Vec::<String>::new(), "unknown requests");
                // Metrics and other state outside the server are polled.
                let _ = timeout(Duration::from_millis(100), changes.changed()).await;
            }
        };
        let waited = timeout(GIVE_UP, wait).await;
        assert!(
            waited.is_ok(),
            "did not happen within {GIVE_UP:?}: {what}\n{}",
            self.dump()
        );
    }

    /// Lets time pass, to check that nothing happens.
    pub(crate) async fn after(&self, duration: Duration) {
        sleep(duration).await;
    }

    /// The last requests and all objects, for the message of a failed test.
    pub(crate) fn dump(&self) -> String {
        let state = self.state();
        let requests = state.requests.iter().rev().take(60).rev();
        let requests: Vec<_> = requests.map(Recorded::to_string).collect();
        format!(
            "the last requests:\n{}\nobjects:\n{}",
            requests.join("\n"),
            state.store.dump()
        )
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    fn changed(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }
}
