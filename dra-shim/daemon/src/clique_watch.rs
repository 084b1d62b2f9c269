//! Watch of this node's `ComputeDomainClique`.

use std::time::Duration;

use compute_domain_api::clique::{ComputeDomainClique, ComputeDomainCliqueRoot};
use daemon_runtime::{RawObject, WatchPauses};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::{Instant, sleep_until};

type Raw = RawObject<ComputeDomainClique>;

/// Maximum back-off. During an outage, each of perhaps ten thousand daemons retries every 15 to 30 s in the end.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Observed state of the object in the API server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ObservedClique {
    /// Not found.
    Absent,
    /// The object cannot be decoded, for this reason.
    Unreadable(String),
    Object(Box<ComputeDomainCliqueRoot>),
}

/// Watch of the object of one clique. It never ends: after a failure, it starts again.
pub(crate) struct CliqueWatch {
    pub(crate) clique: String,
    api: Api<Raw>,
    events: BoxStream<'static, watcher::Result<Event<Raw>>>,
    pauses: WatchPauses,
    /// The end of the pause after a failure.
    resume_at: Option<Instant>,
    /// Result of the list in progress.
    listed: ObservedClique,
}

// === impl CliqueWatch ===

impl CliqueWatch {
    /// Lists and watches a single object: other cliques cost this daemon nothing.
    // req: DAEMON-3
    pub(crate) fn start(client: Client, namespace: &str, clique: &str) -> Self {
        let api = Api::namespaced(client, namespace);
        Self {
            events: events(&api, clique),
            clique: clique.to_owned(),
            api,
            pauses: WatchPauses::up_to(LONGEST_PAUSE),
            resume_at: None,
            listed: ObservedClique::Absent,
        }
    }

    /// Returns the next observed state. Waits while the API server is unreachable. May be cancelled.
    pub(crate) async fn next(&mut self) -> ObservedClique {
        loop {
            if let Some(at) = self.resume_at {
                sleep_until(at).await;
                self.resume_at = None;
            }
            match self.events.next().await {
                Some(Ok(Event::Init)) => self.listed = ObservedClique::Absent,
                Some(Ok(Event::InitApply(object))) => self.listed = ObservedClique::from(object),
                Some(Ok(Event::InitDone)) => return self.listed.clone(),
                Some(Ok(Event::Apply(object))) => return ObservedClique::from(object),
                Some(Ok(Event::Delete(_))) => return ObservedClique::Absent,
                // The watch's readiness condition has the reason. The API server may come back with an older
                // state, from which a resumed watch would deliver nothing: list the object again.
                Some(Err(_)) | None => {
                    self.resume_at = self.pauses.next().map(|pause| Instant::now() + pause);
                    self.events = events(&self.api, &self.clique);
                }
            }
        }
    }
}

fn events(api: &Api<Raw>, clique: &str) -> BoxStream<'static, watcher::Result<Event<Raw>>> {
    let one = watcher::Config::default().fields(&format!("metadata.name={clique}"));
    watcher(api.clone(), one).boxed()
}

impl From<Raw> for ObservedClique {
    fn from(RawObject(object): Raw) -> Self {
        match object {
            Ok(object) => Self::Object(Box::new(object.spec)),
            Err(invalid) => Self::Unreadable(invalid.error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// An API server that lists one object and fails every watch. Returns the requests that it received.
    fn mk_server() -> (Client, Arc<Mutex<Vec<&'static str>>>) {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().query().unwrap().contains("watch=true");
            let mut seen = seen.lock().unwrap();
            seen.push(if is_watch { "watch" } else { "list" });
            let lists = seen.iter().filter(|it| **it == "list").count();
            let list = json!({
                "metadata": { "resourceVersion": "7" },
                "items": [{ "metadata": { "name": "c" }, "daemons": [], "listLength": lists }],
            });
            let status = if is_watch { 503 } else { 200 };
            let answer = Response::builder().status(status);
            let answer = answer.body(Body::from(list.to_string().into_bytes()));
            async move { answer }
        });
        (Client::new(service, "ns"), requests)
    }

    // req: DAEMON-3
    #[tokio::test]
    async fn after_a_failed_watch_the_object_is_listed_again() {
        let (client, requests) = mk_server();
        let mut watch = CliqueWatch::start(client, "ns", "c");
        for length in 1..=2 {
            let ObservedClique::Object(object) = watch.next().await else {
                panic!("no object");
            };
            assert_eq!(object.list_length, Some(length));
        }
        assert_eq!(*requests.lock().unwrap(), ["list", "watch", "list"]);
    }
}
