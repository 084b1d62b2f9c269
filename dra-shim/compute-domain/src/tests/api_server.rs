//! An API server in memory that records its requests: claims, domains, pods, and the
//! node's slices with their watch.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Channel};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use recorded_request::{Answer, Objects, RecordedRequest, ok, plain};

mod recorded_request;

pub(crate) const DOMAIN: &str = "c0ffee00-1234-4567-89ab-0123456789ab";

/// A time that the API server accepts and Kubernetes' Rust types cannot decode.
const YEAR_9999: &str = "9999-12-31T23:59:59Z";

/// Clones share one server.
#[derive(Clone, Default)]
pub(crate) struct ApiServer {
    state: Arc<Mutex<State>>,
    /// How often the watches were ended.
    ended: Arc<watch::Sender<u32>>,
}

#[derive(Default)]
struct State {
    claims: Objects,
    domains: Objects,
    pods: Objects,
    slices: BTreeMap<String, Value>,
    version: u64,
    requests: Vec<String>,
    /// Events with the name of their object.
    events: Vec<(String, String)>,
    /// Status and body of every answer, if set.
    refusal: Option<(u16, String)>,
    /// Status and body of every list of pods, if set.
    pod_refusal: Option<(u16, String)>,
    /// How many further pages get 410, as if their token had expired.
    expired_tokens: u32,
    /// Watches from an earlier version get 410, as if the history were lost.
    history_from: u64,
}

impl ApiServer {
    pub(crate) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, io::Error>(server.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    /// Adds a claim of `DOMAIN`, allocated to node n1. Its name is its UID.
    pub(crate) fn put_claim(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.state().claims.insert(key, mk_claim(namespace, name));
    }

    /// Adds many other claims that are not allocated.
    pub(crate) fn put_pending_claims(&self, count: u32) {
        let mut state = self.state();
        for number in 0..count {
            let name = format!("pending-{number:06}");
            let claim = json!({"metadata": {"namespace": "jobs", "name": name, "uid": name}});
            state.claims.insert(("jobs".to_owned(), name), claim);
        }
    }

    pub(crate) fn change_claim(&self, namespace: &str, name: &str, change: impl Fn(&mut Value)) {
        let key = (namespace.to_owned(), name.to_owned());
        change(self.state().claims.get_mut(&key).unwrap());
    }

    pub(crate) fn delete_claim(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.state().claims.remove(&key).unwrap();
    }

    pub(crate) fn put_domain(&self, namespace: &str, name: &str, uid: &str) {
        let domain = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": name, "namespace": namespace, "uid": uid,
                "managedFields": [{"manager": "m", "time": YEAR_9999}]},
        });
        let key = (namespace.to_owned(), name.to_owned());
        self.state().domains.insert(key, domain);
    }

    pub(crate) fn set_domain_status(&self, namespace: &str, name: &str, status: Value) {
        let key = (namespace.to_owned(), name.to_owned());
        self.state().domains.get_mut(&key).unwrap()["status"] = status;
    }

    /// Adds a pod of the node with a container and this claim.
    pub(crate) fn put_pod(&self, namespace: &str, claim: &str, phase: &str) {
        let pod = json!({
            "metadata": {"name": "pod", "namespace": namespace, "uid": "pod-of-the-claim",
                "managedFields": [{"manager": "m", "time": YEAR_9999}]},
            "spec": {"nodeName": "n1", "resourceClaims": [{"name": "c", "resourceClaimName": claim}]},
            "status": {"phase": phase, "containerStatuses": [{"containerID": "containerd://1"}]},
        });
        let key = (namespace.to_owned(), "pod".to_owned());
        self.state().pods.insert(key, pod);
    }

    pub(crate) fn delete_pod(&self, namespace: &str) {
        let key = (namespace.to_owned(), "pod".to_owned());
        self.state().pods.remove(&key).unwrap();
    }

    /// Deletes the slices, like kubelet at its start.
    pub(crate) fn delete_slices(&self) {
        self.state().slices.clear();
    }

    /// Answers all requests with this; `None`: answers normally again.
    pub(crate) fn refuse(&self, refusal: Option<(u16, &str)>) {
        self.state().refusal = refusal.map(|(code, body)| (code, body.to_owned()));
    }

    /// Like [`refuse`](Self::refuse), only for lists of pods.
    pub(crate) fn refuse_pods(&self, refusal: Option<(u16, &str)>) {
        self.state().pod_refusal = refusal.map(|(code, body)| (code, body.to_owned()));
    }

    pub(crate) fn expire_tokens(&self, count: u32) {
        self.state().expired_tokens = count;
    }

    /// Ends all watches, like an API server that shuts down.
    pub(crate) fn end_watches(&self) {
        self.ended.send_modify(|count| *count += 1);
    }

    /// Loses the history, so that every watch must begin with a list.
    pub(crate) fn lose_history(&self) {
        let mut state = self.state();
        state.version += 1;
        state.history_from = state.version;
    }

    /// Requests since the last call, such as `get resourceclaims`; without events.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state().requests)
    }

    /// Events since the last call, as `Warning Reason: note`.
    pub(crate) fn events(&self) -> Vec<String> {
        let events = std::mem::take(&mut self.state().events);
        events.into_iter().map(|(_, line)| line).collect()
    }

    /// Events since the last call, with the name of their object.
    pub(crate) fn events_with_objects(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.state().events)
    }

    /// Like [`requests`](Self::requests), but the next call returns them again.
    pub(crate) fn peek_requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default().to_owned();
        if path.ends_with("/events") {
            let event: Value = serde_json::from_slice(&body).unwrap();
            let of = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            let object = event["regarding"]["name"].as_str().unwrap_or_default();
            let line = format!("{} {}: {}", of("type"), of("reason"), of("note"));
            self.state().events.push((object.to_owned(), line));
            return ok(&json!({"metadata": {}}));
        }
        let mut state = self.state();
        let recorded = RecordedRequest::parse(&head.method, &path, &query);
        state
            .requests
            .push(format!("{} {}", recorded.verb, recorded.kind));
        if let Some((code, body)) = &state.refusal {
            return plain(*code, body.clone());
        }
        match (recorded.verb, recorded.kind.as_str()) {
            ("get", "nodes") => ok(&json!({"metadata": {"name": "n1", "uid": "node-uid"}})),
            ("get", "resourceclaims") => recorded.pick(&state.claims),
            ("get", "computedomains") => recorded.pick(&state.domains),
            ("get", "pods") => recorded.pick(&state.pods),
            ("list", "pods") => {
                assert_eq!(recorded.query("fieldSelector"), Some("spec.nodeName%3Dn1"));
                match &state.pod_refusal {
                    Some((code, body)) => plain(*code, body.clone()),
                    None => recorded.page(&state.pods, &mut 0),
                }
            }
            ("list", "resourceclaims") => {
                let State {
                    claims,
                    expired_tokens,
                    ..
                } = &mut *state;
                recorded.page(claims, expired_tokens)
            }
            ("list", "computedomains") => {
                let State {
                    domains,
                    expired_tokens,
                    ..
                } = &mut *state;
                recorded.page(domains, expired_tokens)
            }
            ("list", "resourceslices") => state.list_slices(),
            ("watch", "resourceslices") => {
                let from = recorded.query("resourceVersion").unwrap().parse().unwrap();
                let lost = state.history_from > from;
                drop(state);
                self.watch(lost, &recorded)
            }
            ("patch", "resourceclaims/status") => {
                let changes: Vec<Value> = serde_json::from_slice(&body).unwrap();
                let adds = changes.iter().find(|change| change["op"] == "add").unwrap();
                assert_eq!(adds["path"], "/status/devices");
                if let Some(claim) = state.claims.get_mut(&recorded.key()) {
                    claim["status"]["devices"] = adds["value"].clone();
                }
                recorded.pick(&state.claims)
            }
            ("create", "resourceslices") => state.create(&body),
            (verb, kind) => panic!("unexpected {verb} {kind}: {path}"),
        }
    }

    /// A watch that ends after the requested time, or with [`ApiServer::end_watches`].
    fn watch(&self, lost: bool, recorded: &RecordedRequest) -> Answer {
        let (mut body, answer) = Channel::<Bytes, io::Error>::new(1);
        let seconds = recorded.query("timeoutSeconds").unwrap().parse().unwrap();
        let mut ended = self.ended.subscribe();
        tokio::spawn(async move {
            if lost {
                let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410,
                    "reason": "Expired", "message": "too old resource version"}});
                let _ = body.send_data(format!("{gone}\n").into()).await;
                return;
            }
            tokio::select! {
                () = sleep(Duration::from_secs(seconds)) => {}
                _ = ended.changed() => {}
            }
        });
        Response::new(answer.boxed_unsync())
    }
}

impl State {
    fn list_slices(&self) -> Answer {
        ok(&json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList",
            "metadata": {"resourceVersion": self.version.to_string()},
            "items": self.slices.values().collect::<Vec<_>>(),
        }))
    }

    fn create(&mut self, body: &[u8]) -> Answer {
        let mut slice: Value = serde_json::from_slice(body).unwrap();
        self.version += 1;
        slice["metadata"]["resourceVersion"] = self.version.to_string().into();
        slice["metadata"]["uid"] = format!("uid-{}", self.version).into();
        let name = slice["metadata"]["name"].as_str().unwrap().to_owned();
        self.slices.insert(name, slice.clone());
        ok(&slice)
    }
}

/// A claim after its allocation.
fn mk_claim(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": namespace, "name": name, "uid": name,
            "annotations": {"resource.nvidia.com/computeDomainName": "train"},
            "managedFields": [{"manager": "m", "time": YEAR_9999}]},
        "status": {
            "allocation": {
                "devices": {
                    "results": [{"request": "channel", "driver": "compute-domain.nvidia.com",
                        "pool": "any", "device": "channel-0"}],
                    "config": [{"source": "FromClaim", "requests": ["channel"], "opaque": {
                        "driver": "compute-domain.nvidia.com", "parameters": {
                            "apiVersion": "resource.nvidia.com/v1beta1",
                            "kind": "ComputeDomainChannelConfig",
                            "domainID": DOMAIN, "allocationMode": "Single"}}}],
                },
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
            },
            "reservedFor": [{"resource": "pods", "name": "pod", "uid": "pod-of-the-claim"}],
        },
    })
}
