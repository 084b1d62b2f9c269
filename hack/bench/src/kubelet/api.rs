//! The part of an API server that the example driver needs: its node, its slices, and every claim
//! that it requests.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Method, Request, Response, StatusCode};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::claim::claim_json;

/// Larger than any object here.
const MAX_BODY: usize = 1 << 20;

/// Serves on a free port until the runtime ends.
pub(super) async fn serve() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn answer(request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let watches = head
        .uri
        .query()
        .is_some_and(|query| query.contains("watch=true"));
    let claims = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/";
    if let Some(uid) = path.strip_prefix(claims) {
        return response(Body::from(claim_json("echo.example.com", uid, uid)));
    }
    match (&head.method, path) {
        (&Method::GET, _) if watches => {
            // Nothing ever changes.
            response(Body::from_stream(stream::pending::<
                Result<Bytes, Infallible>,
            >()))
        }
        (&Method::GET, "/version") => text(&version()),
        (&Method::GET, "/api/v1/nodes/node-1") => text(&node()),
        (&Method::GET, "/apis/resource.k8s.io/v1/resourceslices") => text(&no_slices()),
        (&Method::POST | &Method::PUT, _) => stored(body).await,
        _ => not_found(),
    }
}

fn version() -> Value {
    json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})
}

fn node() -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "node-1", "uid": "node-uid"}})
}

fn no_slices() -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList",
        "metadata": {"resourceVersion": "1"}, "items": []})
}

/// The received object, as the server returns it.
async fn stored(body: Body) -> Response<Body> {
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return not_found();
    };
    let Ok(mut object) = serde_json::from_slice::<Value>(&body) else {
        return not_found();
    };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let prefix = metadata.get("generateName").and_then(Value::as_str);
        let name = json!(format!("{}abcde", prefix.unwrap_or_default()));
        metadata.entry("name").or_insert(name);
        metadata.insert("uid".to_owned(), json!("slice-uid"));
        metadata.insert("resourceVersion".to_owned(), json!("2"));
    }
    text(&object)
}

fn text(object: &Value) -> Response<Body> {
    response(Body::from(object.to_string()))
}

fn response(body: Body) -> Response<Body> {
    Response::new(body)
}

fn not_found() -> Response<Body> {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure",
        "reason": "NotFound", "message": "no such thing here", "code": 404});
    let mut answer = text(&status);
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer
}
