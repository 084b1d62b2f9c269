//! An API server in memory: nodes and `ResourceSlices`, with watches.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Channel, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// The server. Clones share its state.
#[derive(Clone, Default)]
pub struct ApiServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    nodes: BTreeMap<String, String>,
    slices: BTreeMap<String, Value>,
    /// Names of slices that the client's selector does not match.
    foreign: BTreeSet<String>,
    events: Vec<(u64, Bytes)>,
    watches: Vec<mpsc::UnboundedSender<Bytes>>,
    requests: Vec<String>,
    down: bool,
    /// Device fields whose feature gate is off.
    dropped: Vec<String>,
    /// Whether the server does not know the effect `None` of taints.
    refuses_none: bool,
    /// Whether the server lacks `resource.k8s.io/v1`.
    is_old: bool,
}

impl ApiServer {
    pub fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    pub fn put_node(&self, name: &str, uid: &str) {
        self.state().nodes.insert(name.to_owned(), uid.to_owned());
    }

    /// Refuses all requests, or none.
    pub fn set_down(&self, down: bool) {
        self.state().down = down;
    }

    pub fn delete_node(&self, name: &str) {
        self.state().nodes.remove(name).expect("the node exists");
    }

    /// Drops these fields of devices from now on.
    pub fn drop_fields(&self, fields: &[&str]) {
        self.state().dropped = fields.iter().map(|field| (*field).to_owned()).collect();
    }

    /// Refuses slices that have a taint with the effect `None`, or stores them.
    pub fn refuse_none(&self, refuses: bool) {
        self.state().refuses_none = refuses;
    }

    /// Ends all watches with an error, as a server does that is replaced.
    pub fn break_watches(&self) {
        let watches = std::mem::take(&mut self.state().watches);
        let gone = json!({"type": "ERROR", "object": {
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 500,
            "reason": "InternalError", "message": "the server is being replaced",
        }});
        for watch in watches {
            let _ = watch.send(Bytes::from(format!("{gone}\n")));
        }
    }

    /// Makes the server behave like Kubernetes 1.33, or a current version.
    pub fn set_old(&self, is_old: bool) {
        self.state().is_old = is_old;
    }

    /// Stores a slice like another client; watches get an event.
    pub fn put_slice(&self, slice: Value) -> Value {
        self.state().store(slice)
    }

    /// Adds a slice of another driver or node with this name.
    pub fn put_foreign_slice(&self, name: &str) {
        self.state().foreign.insert(name.to_owned());
    }

    pub fn delete_slice(&self, name: &str) {
        self.state().delete(name).expect("the slice exists");
    }

    pub fn slices(&self) -> Vec<Value> {
        self.state().slices.values().cloned().collect()
    }

    /// `METHOD PATH` of each request that changes something.
    pub fn writes(&self) -> Vec<String> {
        let writes = |request: &&String| !request.starts_with("GET ");
        self.state()
            .requests
            .iter()
            .filter(writes)
            .cloned()
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    async fn answer(&self, request: Request<Body>) -> Response<Answer> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.uri.path();
        let query = head.uri.query().unwrap_or_default();
        let mut state = self.state();
        state.requests.push(format!("{} {path}", head.method));
        if state.down {
            return refusal(StatusCode::INTERNAL_SERVER_ERROR, "the server is down");
        }
        if path == "/version" {
            return ok(&json!({
                "major": "1", "minor": "33", "gitVersion": "v1.33.9", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "",
                "platform": "",
            }));
        }
        if state.is_old && path.starts_with("/apis/resource.k8s.io/v1/") {
            // The response of a real server for an unknown group version.
            let body = Full::from("404 page not found\n").boxed_unsync();
            let mut response = Response::new(body);
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
        if let Some(name) = path.strip_prefix("/api/v1/nodes/") {
            return state.node(name);
        }
        let name = path
            .strip_prefix(SLICES)
            .unwrap_or_else(|| panic!("unexpected {path}"));
        let name = name.trim_start_matches('/');
        match head.method {
            Method::GET if query.contains("watch=true") => state.watch(query),
            Method::GET => {
                assert!(
                    query.contains("spec.driver") && query.contains("spec.nodeName"),
                    "{query}"
                );
                state.list()
            }
            Method::POST => state.create(body),
            Method::PUT => state.replace(name, body),
            Method::DELETE if name.is_empty() => state.delete_collection(query),
            Method::DELETE => state.delete_if(name, &body),
            method => panic!("unexpected {method} {path}"),
        }
    }
}

impl State {
    fn node(&self, name: &str) -> Response<Answer> {
        let Some(uid) = self.nodes.get(name) else {
            return not_found();
        };
        ok(&json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": name, "uid": uid},
        }))
    }

    fn list(&self) -> Response<Answer> {
        ok(&json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList",
            "metadata": {"resourceVersion": self.version.to_string()},
            "items": self.slices.values().collect::<Vec<_>>(),
        }))
    }

    /// Sends all events after the client's listed version, and all later ones.
    fn watch(&mut self, query: &str) -> Response<Answer> {
        let listed = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("resourceVersion="));
        let listed: u64 = listed.unwrap().parse().unwrap();
        let (events, mut pending) = mpsc::unbounded_channel();
        for (_, event) in self.events.iter().filter(|(version, _)| *version > listed) {
            events.send(event.clone()).unwrap();
        }
        self.watches.push(events);
        let (mut body, answer) = Channel::<Bytes, Infallible>::new(1);
        tokio::spawn(async move {
            while let Some(event) = pending.recv().await {
                if body.send_data(event).await.is_err() {
                    break;
                }
            }
        });
        Response::new(answer.boxed_unsync())
    }

    fn create(&mut self, mut slice: Value) -> Response<Answer> {
        let named = name(&slice);
        if self.slices.contains_key(named) || self.foreign.contains(named) {
            return refusal(StatusCode::CONFLICT, "AlreadyExists");
        }
        if let Err(reason) = self.validate(&slice) {
            return refusal(StatusCode::UNPROCESSABLE_ENTITY, reason);
        }
        self.drop_from(&mut slice);
        ok(&self.store(slice))
    }

    fn validate(&self, slice: &Value) -> Result<(), &'static str> {
        let devices = slice["spec"]["devices"].as_array().into_iter().flatten();
        let mut taints = devices.flat_map(|it| it["taints"].as_array().into_iter().flatten());
        if self.refuses_none && taints.any(|it| it["effect"] == "None") {
            return Err("spec.devices[0].taints[0].effect: Unsupported value: \"None\"");
        }
        validate(slice)
    }

    fn drop_from(&self, slice: &mut Value) {
        let devices = slice["spec"]["devices"].as_array_mut();
        for device in devices.into_iter().flatten() {
            for field in &self.dropped {
                device.as_object_mut().unwrap().remove(field);
            }
        }
    }

    fn replace(&mut self, name: &str, mut slice: Value) -> Response<Answer> {
        let Some(stored) = self.slices.get(name) else {
            return not_found();
        };
        if stored["metadata"]["resourceVersion"] != slice["metadata"]["resourceVersion"] {
            return refusal(StatusCode::CONFLICT, "Conflict");
        }
        for field in ["/spec/driver", "/spec/nodeName", "/spec/pool/name"] {
            if stored.pointer(field) != slice.pointer(field) {
                return refusal(StatusCode::UNPROCESSABLE_ENTITY, "field is immutable");
            }
        }
        if let Err(reason) = self.validate(&slice) {
            return refusal(StatusCode::UNPROCESSABLE_ENTITY, reason);
        }
        let stored = stored.clone();
        self.drop_from(&mut slice);
        if stored == slice {
            return ok(&stored); // no change, so no watch event
        }
        ok(&self.store(slice))
    }

    fn delete_if(&mut self, name: &str, options: &Value) -> Response<Answer> {
        let Some(stored) = self.slices.get(name) else {
            return not_found();
        };
        for field in ["uid", "resourceVersion"] {
            let wanted = &options["preconditions"][field];
            if !wanted.is_null() && *wanted != stored["metadata"][field] {
                return refusal(StatusCode::CONFLICT, "Conflict");
            }
        }
        self.delete(name).unwrap_or_else(not_found)
    }

    fn store(&mut self, mut slice: Value) -> Value {
        self.version += 1;
        slice["metadata"]["resourceVersion"] = self.version.to_string().into();
        if slice["metadata"]["uid"].is_null() {
            slice["metadata"]["uid"] = format!("uid-{}", self.version).into();
        }
        let before = self.slices.insert(name(&slice).to_owned(), slice.clone());
        self.send_event(
            if before.is_some() {
                "MODIFIED"
            } else {
                "ADDED"
            },
            &slice,
        );
        slice
    }

    fn delete(&mut self, name: &str) -> Option<Response<Answer>> {
        let slice = self.slices.remove(name)?;
        self.version += 1;
        self.send_event("DELETED", &slice);
        Some(ok(&slice))
    }

    /// Deletes a collection, with kubelet's field selectors for node and driver.
    fn delete_collection(&mut self, query: &str) -> Response<Answer> {
        let query = query.replace("%3D", "=").replace("%2C", ",");
        let fields = query
            .split(['&', '?', ','])
            .map(|field| field.strip_prefix("fieldSelector=").unwrap_or(field));
        let wanted: Vec<_> = fields
            .filter_map(|field| field.strip_prefix("spec.")?.split_once('='))
            .collect();
        let matches = |slice: &&Value| {
            let spec = &slice["spec"];
            wanted.iter().all(|(field, value)| spec[*field] == *value)
        };
        let slices = self.slices.values().filter(matches);
        let names: Vec<_> = slices.map(|slice| name(slice).to_owned()).collect();
        for name in names {
            self.delete(&name);
        }
        self.list()
    }

    fn send_event(&mut self, kind: &str, slice: &Value) {
        let event = Bytes::from(format!("{}\n", json!({"type": kind, "object": slice})));
        self.events.push((self.version, event.clone()));
        self.watches
            .retain(|watch| watch.send(event.clone()).is_ok());
    }
}

/// Validates a slice with those rules of a real server that a publisher can break.
fn validate(slice: &Value) -> Result<(), &'static str> {
    let pool = &slice["spec"]["pool"];
    if pool["generation"].as_i64() < Some(0) || pool["resourceSliceCount"].as_i64() < Some(1) {
        return Err("spec.pool: Invalid value");
    }
    let devices = slice["spec"]["devices"].as_array();
    let devices: Vec<_> = devices.into_iter().flatten().collect();
    let has_taint = |device: &&Value| device["taints"].as_array().is_some_and(|t| !t.is_empty());
    let max = if devices.iter().any(has_taint) {
        64
    } else {
        128
    };
    if devices.len() > max {
        return Err("spec.devices: Too many");
    }
    let names: BTreeSet<_> = devices.iter().map(|d| d["name"].as_str()).collect();
    if names.len() != devices.len() {
        return Err("spec.devices: Duplicate value");
    }
    Ok(())
}

fn name(slice: &Value) -> &str {
    slice["metadata"]["name"].as_str().unwrap()
}

fn ok(object: &Value) -> Response<Answer> {
    Response::new(Full::from(object.to_string()).boxed_unsync())
}

fn not_found() -> Response<Answer> {
    refusal(StatusCode::NOT_FOUND, "NotFound")
}

fn refusal(code: StatusCode, reason: &str) -> Response<Answer> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": reason,
    });
    let mut response = ok(&status);
    *response.status_mut() = code;
    response
}
