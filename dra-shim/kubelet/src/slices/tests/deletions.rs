//! Deletion of a slice if another slice has taken its name on the API server.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::resource::v1::ResourceSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::client::Body;
use serde_json::{Value, json};

use super::super::plan::Step;
use super::super::requests::Requests;
use crate::observer::NoopObserver;

/// `(uid, resourceVersion)` of the only slice.
type Stored = Arc<Mutex<Option<(&'static str, &'static str)>>>;

/// Deletes like the API server: the object with the name, if the preconditions hold.
fn answer(stored: &Stored, options: &Value) -> Response<Full<Bytes>> {
    let precondition = |name: &str| options["preconditions"][name].as_str();
    let mut stored = stored.lock().unwrap();
    let (uid, version) = stored.unwrap();
    let is_meant = precondition("uid").is_none_or(|expected| expected == uid)
        && precondition("resourceVersion").is_none_or(|expected| expected == version);
    let (code, status, reason) = if is_meant {
        *stored = None;
        (200, "Success", "")
    } else {
        (409, "Failure", "Conflict")
    };
    let body = json!({"apiVersion": "v1", "kind": "Status", "status": status, "code": code,
        "reason": reason, "message": "the UID or the version in the precondition is another one"});
    let answer = Response::builder().status(code);
    answer.body(Full::from(body.to_string())).unwrap()
}

fn mk_requests(stored: &Stored) -> Requests {
    let stored = Arc::clone(stored);
    let service = tower::service_fn(move |request: Request<Body>| {
        let stored = Arc::clone(&stored);
        async move {
            let options = request
                .into_body()
                .collect()
                .await
                .map_err(io::Error::other)?;
            let options = serde_json::from_slice(&options.to_bytes())?;
            Ok::<_, io::Error>(answer(&stored, &options))
        }
    });
    let client = kube::Client::new(service, "default");
    Requests::new(client, "d.example.com", "n1", Arc::new(NoopObserver))
}

/// Deletes the slice that was read as `u1` in version 7. Returns whether the deletion succeeded,
/// and whether an object with the name remains.
async fn delete(uid: &'static str, version: &'static str) -> (bool, bool) {
    let stored: Stored = Arc::new(Mutex::new(Some((uid, version))));
    let read = ResourceSlice {
        metadata: ObjectMeta {
            name: Some("n1-d-0".to_owned()),
            uid: Some("u1".to_owned()),
            resource_version: Some("7".to_owned()),
            ..ObjectMeta::default()
        },
        ..ResourceSlice::default()
    };
    let results = mk_requests(&stored).run(vec![Step::Delete(read)]).await;
    let is_left = stored.lock().unwrap().is_some();
    (results.iter().all(Result::is_ok), is_left)
}

// req: KUBELET-53
#[tokio::test]
async fn only_the_slice_that_was_read_is_deleted() {
    assert_eq!(delete("u1", "7").await, (true, false));
    // Another object has its name, or another client has changed it.
    assert_eq!(delete("u2", "7").await, (false, true));
    assert_eq!(delete("u1", "8").await, (false, true));
}
