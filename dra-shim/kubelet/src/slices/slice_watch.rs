//! The watch of the node's slices, with pauses between restarts: every node has one, and a
//! restart of the API server ends all of them at once.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use http::{Request, Response};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::client::Body;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

/// Time over which the restarts of watches are spread that ended together. With 10 000 nodes
/// that is 170 requests a second, or 340 at first if earlier attempts failed. kubelet's
/// registration and a changed pool do not wait for the watch.
const SPREAD: Duration = Duration::from_secs(60);

/// Age from which the end of a watch counts as its expiry. kube asks the API server to end a
/// watch after 290 s. After an expiry the next watch begins at once: expiries are already
/// spread.
const EXPIRED_AFTER: Duration = Duration::from_secs(280);

/// The longest pause after the first failure of a watch that has never begun. It doubles with
/// each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// An event of [`SliceWatch`].
pub(super) enum SliceWatchEvent {
    /// A slice has changed, or the slices are being listed.
    Slice(Box<watcher::Event<ResourceSlice>>),
    /// The API server has accepted the watch.
    Begun,
    /// The watch has failed, and restarts after a pause.
    Failed(watcher::Error),
}

/// A watch that restarts whenever it ends.
pub(super) struct SliceWatch {
    events: Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<ResourceSlice>>> + Send>>,
    pace: Arc<WatchPacing>,
    /// The end of the pause after a failure.
    resume_at: Option<Instant>,
    has_begun: bool,
    /// Failures before the watch has begun for the first time.
    failures: u32,
    /// The last time that the slices were listed again because the history was lost.
    listed_again: Option<Instant>,
}

/// State that the watch shares with its client.
#[derive(Default)]
struct WatchPacing {
    /// The start of the current watch, or of the last one if it ended without an error.
    began: Mutex<Option<Instant>>,
    begun: Notify,
}

// === impl SliceWatch ===

impl SliceWatch {
    /// Watches the slices that match the field selector.
    ///
    /// # Panics
    /// Outside a tokio runtime, like `Client::new`.
    pub(super) fn new(client: &Client, selector: &str) -> Self {
        let pace = Arc::new(WatchPacing::default());
        let slices = Api::all(paced(client, &pace));
        let config = watcher::Config::default().fields(selector);
        Self {
            events: watcher::watcher(slices, config).boxed(),
            pace,
            resume_at: None,
            has_begun: false,
            failures: 0,
            listed_again: None,
        }
    }

    /// Returns the next event; `None` only if kube's watcher ends, which it never does.
    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<SliceWatchEvent> {
        if let Some(at) = self.resume_at {
            sleep_until(at).await;
            self.resume_at = None;
        }
        tokio::select! {
            biased;
            () = self.pace.begun.notified() => {
                self.has_begun = true;
                Some(SliceWatchEvent::Begun)
            }
            event = self.events.next() => Some(match event? {
                Ok(event) => SliceWatchEvent::Slice(Box::new(event)),
                Err(error) => {
                    self.pace.forget();
                    self.resume_at = Some(Instant::now() + self.pause(&error));
                    SliceWatchEvent::Failed(error)
                }
            }),
        }
    }

    fn pause(&mut self, error: &watcher::Error) -> Duration {
        let is_history_lost =
            matches!(error, watcher::Error::WatchError(status) if status.code == 410);
        let now = Instant::now();
        let listed_recently = self.listed_again.is_some_and(|at| now - at < SPREAD);
        if is_history_lost && !listed_recently {
            // The failed watch was paused already; a list is next.
            self.listed_again = Some(now);
            return Duration::ZERO;
        }
        if self.has_begun {
            return up_to(SPREAD);
        }
        let doubled = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures += 1;
        up_to(doubled.min(SPREAD))
    }
}

// === impl Pace ===

impl WatchPacing {
    /// The pause before a watch is requested. It is zero unless the last watch ended early
    /// without an error, as when an API server shuts down. kube's watcher treats that as an
    /// expiry.
    fn before_watch(&self) -> Duration {
        match self.forget() {
            Some(began) if began.elapsed() < EXPIRED_AFTER => up_to(SPREAD),
            _ => Duration::ZERO,
        }
    }

    fn begun(&self) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.begun.notify_one();
    }

    fn forget(&self) -> Option<Instant> {
        self.began
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// Creates a client that paces one watch.
fn paced(client: &Client, pace: &Arc<WatchPacing>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let (client, pace) = (client.clone(), Arc::clone(pace));
    let service = tower::service_fn(move |request| {
        let (client, pace) = (client.clone(), Arc::clone(&pace));
        async move { send(&client, &pace, request).await }
    });
    Client::new(service, namespace)
}

async fn send(
    client: &Client,
    pace: &WatchPacing,
    request: Request<Body>,
) -> Result<Response<Body>, kube::Error> {
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query.split('&').any(|pair| pair == "watch=true");
    if is_watch {
        sleep(pace.before_watch()).await;
    }
    let response = client.send(request).await?;
    if is_watch && response.status().is_success() {
        pace.begun();
    }
    Ok(response)
}

fn up_to(longest: Duration) -> Duration {
    longest.mul_f64(fastrand::f64())
}
