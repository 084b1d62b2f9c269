//! An API server in memory, for tests: what the controller needs of one, with its rules about
//! versions, UIDs, generations, finalizers and preconditions.
//!
//! ```text
//! kube::Client ─> client ─> request ─────> faults ─────> verbs ─> store ─> watch (bodies)
//!                 deadlines  which call    what goes      what Kubernetes makes of it
//!                            it is         wrong with it
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

/// Nothing that a test waits for takes longer, by the paused clock.
const GIVE_UP: Duration = Duration::from_secs(20 * 60);

/// The API server of one test. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub(crate) struct FakeApi {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Counts what happens, so that watches and tests need not poll.
    changes: changes::Sender<u64>,
}

/// Everything that the server knows.
#[derive(Default)]
struct State {
    store: Store,
    faults: Faults,
    requests: Vec<Recorded>,
    /// The conditions and nodes that each manager applied last, by the object's UID.
    applied: HashMap<(String, String), Vec<patch::Item>>,
    /// Which managers have applied a label of a node, by the node's name and the label.
    label_owners: HashMap<(String, String), BTreeSet<String>>,
    /// The requests that no rule of [`Call`] knows.
    unknown: Vec<String>,
    /// The watches that are open.
    watches: Vec<Call>,
    /// Whether the server is away.
    down: bool,
    /// Up to how long a request takes to arrive, and its answer to come back.
    latency: Option<Duration>,
}

/// A request that was made.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) call: Call,
    /// Its object's namespace; empty for all namespaces.
    pub(crate) namespace: String,
    /// Its object's name, if it is about one that exists.
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

    /// From now on, each request and each answer takes a random time up to this.
    pub(crate) fn set_latency(&self, latency: Duration) {
        self.state().latency = Some(latency);
    }

    /// The server goes away, with all connections, or comes back.
    pub(crate) fn set_down(&self, down: bool) {
        self.state().down = down;
        self.changed();
    }

    /// What an administrator backs up.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state().store.snapshot()
    }

    /// An administrator restores a backup.
    pub(crate) fn restore(&self, snapshot: Snapshot) {
        self.state().store.restore(snapshot);
    }

    /// Adds something that goes wrong.
    pub(crate) fn break_with(&self, rule: Rule) {
        self.state().faults.add(rule);
    }

    /// From now on, this part of all requests fails, each in another way.
    pub(crate) fn break_at_random(&self, part: f64) {
        self.state().faults.set_random(part);
    }

    /// Nothing goes wrong any more.
    pub(crate) fn heal(&self) {
        self.state().faults = Faults::default();
    }

    /// How often something went wrong since the last [`FakeApi::heal`].
    pub(crate) fn faults_fired(&self) -> usize {
        self.state().faults.fired()
    }

    /// The requests since the last [`FakeApi::forget_requests`], in their order.
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

    /// A request arrives that was made before, or once more.
    pub(crate) fn arrives_late(&self, recorded: &Recorded) {
        self.state().serve(&recorded.request);
        self.changed();
    }

    /// When these calls were made.
    pub(crate) fn times(&self, call: Call) -> Vec<Instant> {
        let requests = &self.state().requests;
        let of_call = requests.iter().filter(|request| request.call == call);
        of_call.map(|request| request.at).collect()
    }

    /// How many requests that change something were made, without events.
    pub(crate) fn writes(&self) -> usize {
        self.count_where(Call::is_write)
    }

    /// How many lists were made.
    pub(crate) fn lists(&self) -> usize {
        self.count_where(Call::is_list)
    }

    /// How many watches of this kind are open.
    pub(crate) fn open_watches(&self, call: Call) -> usize {
        let watches = &self.state().watches;
        watches.iter().filter(|open| **open == call).count()
    }

    /// Waits until something is true.
    ///
    /// # Panics
    /// If it does not become true, or if a request was made that the server does not know.
    pub(crate) async fn until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        let wait = async {
            while !is_true(self) {
                let unknown = self.state().unknown.clone();
                assert_eq!(unknown, Vec::<String>::new(), "requests that nothing knows");
                // What is no change of the server's, such as a metric, is looked at now and then.
                let _ = timeout(Duration::from_millis(100), changes.changed()).await;
            }
        };
        let waited = timeout(GIVE_UP, wait).await;
        assert!(
            waited.is_ok(),
            "not within {GIVE_UP:?}: {what}\n{}",
            self.dump()
        );
    }

    /// Lets time pass. For what must not happen in it.
    pub(crate) async fn after(&self, duration: Duration) {
        sleep(duration).await;
    }

    /// What there is and was, for a test that fails.
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
