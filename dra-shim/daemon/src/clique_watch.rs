//! The watch of one `ComputeDomainClique`, that of this node.

use std::time::Duration;

use compute_domain_api::clique::{ComputeDomainClique, ComputeDomainCliqueRoot};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use imex_runtime::{RawObject, WatchPauses};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};

type Raw = RawObject<ComputeDomainClique>;

/// Of ten thousand daemons that have lost their API server, each asks every 15 to 30 s in the end.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// What the API server has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    /// No such object.
    Absent,
    /// One that cannot be read, for this reason.
    Unreadable(String),
    Object(Box<ComputeDomainCliqueRoot>),
}

/// The watch of the object of one clique. It never ends; one that fails is made again.
pub(crate) struct CliqueWatch {
    pub(crate) clique: String,
    events: BoxStream<'static, watcher::Result<Event<Raw>>>,
    /// What the list under way has shown.
    listed: Seen,
}

// === impl CliqueWatch ===

impl CliqueWatch {
    /// One list of one name, then one watch of it: what other cliques do costs this daemon nothing.
    // req: DAEMON-3
    pub(crate) fn start(client: Client, namespace: &str, clique: &str) -> Self {
        let api: Api<Raw> = Api::namespaced(client, namespace);
        let one = watcher::Config::default().fields(&format!("metadata.name={clique}"));
        Self {
            clique: clique.to_owned(),
            events: watcher(api, one)
                .backoff(WatchPauses::up_to(LONGEST_PAUSE))
                .boxed(),
            listed: Seen::Absent,
        }
    }

    /// The next news. An API server that is away is none. May be cancelled.
    pub(crate) async fn next(&mut self) -> Seen {
        while let Some(event) = self.events.next().await {
            match event {
                Ok(Event::Init) => self.listed = Seen::Absent,
                Ok(Event::InitApply(object)) => self.listed = Seen::from(object),
                Ok(Event::InitDone) => return self.listed.clone(),
                Ok(Event::Apply(object)) => return Seen::from(object),
                Ok(Event::Delete(_)) => return Seen::Absent,
                // The condition of the watch has it.
                Err(_) => {}
            }
        }
        std::future::pending().await
    }
}

impl From<Raw> for Seen {
    fn from(RawObject(object): Raw) -> Self {
        match object {
            Ok(object) => Self::Object(Box::new(object.spec)),
            Err(invalid) => Self::Unreadable(invalid.error),
        }
    }
}
