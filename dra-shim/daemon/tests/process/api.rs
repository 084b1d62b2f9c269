//! A minimal API server for the daemon: list and watch of cliques, creation of events.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// Clones are the same server. It serves until the process ends.
#[derive(Clone)]
pub(crate) struct Api {
    shared: Arc<(Mutex<State>, Condvar)>,
    address: SocketAddr,
}

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<String, Value>,
    history: Vec<(u64, Value)>,
    events: Vec<Value>,
    requests: Vec<String>,
    /// The server closes every connection.
    is_down: bool,
}

impl Api {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let api = Self {
            shared: Arc::default(),
            address: listener.local_addr().unwrap(),
        };
        let serving = api.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let api = serving.clone();
                // It ends with the connection.
                thread::spawn(move || drop(api.serve(&stream)));
            }
        });
        api
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

    /// Creates or replaces the object of a clique.
    pub(crate) fn put(&self, clique: &str, daemons: &[Value]) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        let object = json!({
            "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainClique",
            "metadata": {"name": clique, "namespace": "imex", "uid": clique,
                "resourceVersion": version.to_string()},
            "daemons": daemons, "listLength": 4, "nameScheme": "hash10",
        });
        let kind = if state
            .objects
            .insert(clique.to_owned(), object.clone())
            .is_some()
        {
            "MODIFIED"
        } else {
            "ADDED"
        };
        state
            .history
            .push((version, json!({"type": kind, "object": object})));
        drop(state);
        self.shared.1.notify_all();
    }

    /// All requests so far, such as `list computedomaincliques`.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// The reasons of all events so far.
    pub(crate) fn events(&self) -> Vec<String> {
        let state = self.state();
        let reasons = state.events.iter().map(|event| event["reason"].as_str());
        reasons.map(|reason| reason.unwrap().to_owned()).collect()
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.state().is_down = is_down;
        self.shared.1.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap()
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let Some((method, url, body)) = read_request(&mut reader)? else {
                return Ok(());
            };
            if self.state().is_down {
                return stream.shutdown(Shutdown::Both);
            }
            let query = url
                .split_once('?')
                .map_or("", |(_, query)| query)
                .to_owned();
            if url.contains("watch=true") {
                self.state()
                    .requests
                    .push("watch computedomaincliques".to_owned());
                return self.watch(stream, &query);
            }
            let answer = self.answer(&method, &url, &query, &body);
            write(stream, &answer)?;
        }
    }

    fn answer(&self, method: &str, url: &str, query: &str, body: &[u8]) -> Value {
        let mut state = self.state();
        if method == "POST" && url.contains("/events") {
            let event: Value = serde_json::from_slice(body).unwrap();
            state.requests.push("create events".to_owned());
            state.events.push(event.clone());
            return event;
        }
        assert!(
            url.contains("/namespaces/imex/computedomaincliques"),
            "{method} {url}"
        );
        state.requests.push("list computedomaincliques".to_owned());
        let items = state
            .objects
            .iter()
            .filter(|(name, _)| is_selected(query, name));
        let items: Vec<_> = items.map(|(_, object)| object.clone()).collect();
        json!({"apiVersion": "v1", "kind": "List",
            "metadata": {"resourceVersion": state.version.to_string()}, "items": items})
    }

    /// Streams the changes after the requested version.
    fn watch(&self, mut stream: &TcpStream, query: &str) -> io::Result<()> {
        let version = query
            .split('&')
            .find_map(|it| it.strip_prefix("resourceVersion="));
        let mut seen: u64 = version.unwrap().parse().unwrap();
        stream.write_all(
            b"HTTP/1.1 200 x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        let mut state = self.state();
        loop {
            if state.is_down {
                return stream.shutdown(Shutdown::Both);
            }
            let new: Vec<_> = state.history.iter().filter(|(it, _)| *it > seen).collect();
            let new: Vec<_> = new.into_iter().cloned().collect();
            for (version, event) in new {
                seen = version;
                let name = event["object"]["metadata"]["name"].as_str().unwrap();
                if is_selected(query, name) {
                    let line = format!("{event}\n");
                    write!(stream, "{:x}\r\n{line}\r\n", line.len())?;
                }
            }
            // The timeout leads to a write that notices a closed connection.
            let waited = self.shared.1.wait_timeout(state, Duration::from_secs(60));
            state = waited.unwrap().0;
        }
    }
}

fn is_selected(query: &str, name: &str) -> bool {
    let mut parts = query.split('&');
    let selector = parts.find_map(|it| it.strip_prefix("fieldSelector="));
    let wanted = selector.and_then(|it| it.strip_prefix("metadata.name%3D"));
    assert!(wanted.is_some(), "not by name: {query}");
    wanted == Some(name)
}

type Request = (String, String, Vec<u8>);

/// `None` at the end of the connection.
fn read_request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Request>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break; // the empty line
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut words = first.split(' ').map(str::to_owned);
    Ok(Some((words.next().unwrap(), words.next().unwrap(), body)))
}

fn write(mut stream: &TcpStream, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}
