//! The part of an API server that the plugin needs, over plain HTTP, on a separate port. It can
//! fail one kind of request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::http::{Request, read, watch, write};

/// UID of the domain of all claims.
pub(crate) const DOMAIN: &str = "c0ffee00-1234-4567-89ab-0123456789ab";

/// The node of all claims, the same as in the Go driver's records.
pub(crate) const NODE: &str = "node-a";

/// How a request fails.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Behaviour {
    /// Answers with this status; 429 with `Retry-After`.
    Status(u16),
    /// Never answers, and keeps the connection open.
    NeverAnswers,
    /// Closes the connection instead.
    Resets,
    /// Answers normally, but later.
    Delays(Duration),
    /// Answers with this text of the object replaced.
    Spoils(&'static str, &'static str),
}

/// A kind of request, such as `get resourceclaims`, for objects of one name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestPattern {
    pub(crate) what: &'static str,
    pub(crate) name: &'static str,
}

/// Clones share one server. It serves until the runtime ends.
#[derive(Clone)]
pub(crate) struct ApiServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Objects by kind and name. Names are unique across namespaces.
    objects: BTreeMap<(&'static str, String), Value>,
    fault: Option<(RequestPattern, Behaviour)>,
    /// How many requests the fault has hit.
    hits: usize,
    events: Vec<Value>,
    /// Requests that wrote slices.
    slice_writes: Vec<String>,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        server.put_domain();
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let server = serving.clone();
                // The task ends with the connection; the client may be killed.
                tokio::spawn(async move { drop(server.serve(connection).await) });
            }
        });
        server
    }

    pub(crate) fn kubeconfig(&self) -> String {
        json!({
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "x",
        })
        .to_string()
    }

    /// Adds an allocated claim: channel-0 of the node, reserved for a pod.
    pub(crate) fn put_claim(&self, name: &str, uid: &str) {
        let key = ("resourceclaims", name.to_owned());
        self.state().objects.insert(key, mk_claim(name, uid));
    }

    /// Adds an object of any kind, such as `resourceclaims`.
    pub(crate) fn put(&self, kind: &'static str, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.state().objects.insert((kind, name), object);
    }

    /// Requests so far that wrote slices, and the current slices.
    pub(crate) fn slices(&self) -> (Vec<String>, Vec<Value>) {
        let state = self.state();
        (state.slice_writes.clone(), state.all("resourceslices"))
    }

    /// Deletes a claim, like a user with `--force` after removing the finalizers: kubelet is not involved.
    pub(crate) fn delete_claim(&self, name: &str) {
        let key = ("resourceclaims", name.to_owned());
        self.state().objects.remove(&key);
    }

    fn put_domain(&self) {
        let domain = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"namespace": "ns", "name": "train", "uid": DOMAIN},
        });
        let key = ("computedomains", "train".to_owned());
        self.state().objects.insert(key, domain);
    }

    /// Fails these requests from now on.
    pub(crate) fn begin_fault(&self, requests: RequestPattern, behaviour: Behaviour) {
        let mut state = self.state();
        state.fault = Some((requests, behaviour));
        state.hits = 0;
    }

    pub(crate) fn end_fault(&self) {
        self.state().fault = None;
    }

    /// How many requests the fault has hit.
    pub(crate) fn hits(&self) -> usize {
        self.state().hits
    }

    /// All events so far.
    pub(crate) fn events(&self) -> Vec<String> {
        let events = &self.state().events;
        events.iter().map(ToString::to_string).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn serve(&self, connection: TcpStream) -> std::io::Result<()> {
        let mut connection = BufReader::new(connection);
        while let Some(request) = read(&mut connection).await? {
            match self.fault(&request) {
                Some(Behaviour::Resets) => return Ok(()),
                Some(Behaviour::NeverAnswers) => {
                    // Until the client hangs up.
                    let mut ignored = Vec::new();
                    connection.read_to_end(&mut ignored).await?;
                    return Ok(());
                }
                Some(Behaviour::Status(code)) => {
                    write(&mut connection, code, &failure(code, &request)).await?;
                    continue;
                }
                Some(Behaviour::Delays(pause)) => sleep(pause).await,
                Some(Behaviour::Spoils(from, to)) => {
                    let (code, body) = self.answer(&request);
                    let body = body.to_string().replace(from, to);
                    write(&mut connection, code, &serde_json::from_str(&body)?).await?;
                    continue;
                }
                None => {}
            }
            if request.watches {
                return watch(connection).await;
            }
            let (code, body) = self.answer(&request);
            write(&mut connection, code, &body).await?;
        }
        Ok(())
    }

    fn fault(&self, request: &Request) -> Option<Behaviour> {
        let mut state = self.state();
        let (requests, behaviour) = state.fault?;
        let is_met = requests.what == request.what && requests.name == request.name;
        is_met.then(|| {
            state.hits += 1;
            behaviour
        })
    }

    fn answer(&self, request: &Request) -> (u16, Value) {
        let found = |kind| {
            let state = self.state();
            if request.name.is_empty() {
                return (200, list(&state.all(kind)));
            }
            let object = state.objects.get(&(kind, request.name.clone()));
            object.map_or_else(|| (404, failure(404, request)), |it| (200, it.clone()))
        };
        match request.what.as_str() {
            "get resourceclaims" | "patch resourceclaims/status" => found("resourceclaims"),
            "get computedomains" => found("computedomains"),
            // No pods: those of deleted claims have ended.
            "get pods" => found("pods"),
            "get nodes" => (200, json!({"metadata": {"name": NODE, "uid": "node-uid"}})),
            "get resourceslices" => found("resourceslices"),
            "post resourceslices" | "put resourceslices" | "delete resourceslices" => {
                (200, self.state().write_slice(request))
            }
            "post events" => {
                let event = stored(&request.body);
                self.state().events.push(event.clone());
                (201, event)
            }
            _ => (404, failure(404, request)),
        }
    }
}

impl State {
    fn all(&self, kind: &str) -> Vec<Value> {
        let objects = self.objects.iter().filter(|((of, _), _)| *of == kind);
        objects.map(|(_, object)| object.clone()).collect()
    }

    /// Writes a slice. Watches do not report it.
    fn write_slice(&mut self, request: &Request) -> Value {
        let line = format!("{} {}", request.what, request.name);
        self.slice_writes.push(line.trim().to_owned());
        let key = |name: &str| ("resourceslices", name.to_owned());
        if request.what.starts_with("delete") {
            return self.objects.remove(&key(&request.name)).unwrap_or_default();
        }
        let slice = stored(&request.body);
        let name = slice["metadata"]["name"].as_str().unwrap_or_default();
        self.objects.insert(key(name), slice.clone());
        slice
    }
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})
}

fn stored(body: &[u8]) -> Value {
    let mut object: Value = serde_json::from_slice(body).unwrap_or_default();
    object["metadata"]["uid"] = "stored-uid".into();
    object["metadata"]["resourceVersion"] = "2".into();
    object
}

/// A failure in the API server's form.
fn failure(code: u16, request: &Request) -> Value {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let kind = request.what.split(' ').nth(1).unwrap_or_default();
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
        "reason": reason, "message": format!("{} {}: {reason}", request.what, request.name),
        "details": {"name": request.name, "kind": kind}})
}

fn mk_claim(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "ns", "name": name, "uid": uid,
            "annotations": {"resource.nvidia.com/computeDomainName": "train"}},
        "status": {
            "allocation": {
                "devices": {
                    "results": [{"request": "channel", "driver": "compute-domain.nvidia.com",
                        "pool": NODE, "device": "channel-0"}],
                    "config": [{"source": "FromClaim", "requests": ["channel"], "opaque": {
                        "driver": "compute-domain.nvidia.com", "parameters": {
                            "apiVersion": "resource.nvidia.com/v1beta1",
                            "kind": "ComputeDomainChannelConfig",
                            "domainID": DOMAIN, "allocationMode": "Single"}}}],
                },
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": [NODE]}]}]},
            },
            "reservedFor": [{"resource": "pods", "name": "pod", "uid": "pod-of-the-claim"}],
        },
    })
}
