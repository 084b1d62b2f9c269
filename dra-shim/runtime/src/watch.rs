//! A readiness condition for a watch.

use dra_common::error_chain;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use tower::service_fn;

use crate::deadline::is_watch;
use crate::readiness::ReadinessCondition;

/// Returns a client for one watch, for example of a `kube::runtime::watcher`. It sends the requests through
/// `client` and sets the condition according to the results.
///
/// The condition is met when the server has started the watch. It is unmet when a list or watch is refused,
/// fails or times out: the kind or a permission is missing, or the server is unavailable. The reason has the
/// path and the server's message. A successful list does not make it met, since the watch may still be
/// refused. A 410 (the server has lost its history) changes nothing: the watcher lists again.
///
/// # Caveats
/// Only the HTTP status decides. A list with status 200 that cannot be decoded, or an error inside a started
/// watch, does not change the condition. The caller's watcher gets them as errors, and the caller must report
/// them.
///
/// The API server does not end a watch whose permission is revoked. This shows when the watch is restarted,
/// after at most five minutes. The API server does end a watch when the `CustomResourceDefinition` is
/// deleted.
///
/// With a streamed list (`InitialListStrategy::StreamingList`), the watch starts before its objects have
/// arrived.
///
/// # Panics
/// Outside a tokio runtime, like every `Client::new`.
// req: CD-30
pub fn observe_watch(client: &Client, condition: &ReadinessCondition) -> Client {
    let namespace = client.default_namespace().to_owned();
    let (client, condition) = (client.clone(), condition.clone());
    let service =
        service_fn(move |request| send_and_observe(client.clone(), condition.clone(), request));
    Client::new(service, namespace)
}

async fn send_and_observe(
    client: Client,
    condition: ReadinessCondition,
    request: Request<Body>,
) -> Result<Response<Body>, kube::Error> {
    let watch = is_watch(request.uri());
    let path = request.uri().path().to_owned();
    let verb = if watch { "watch" } else { "list" };
    let unmet = |reason: &str| condition.set_unmet(&format!("cannot {verb} {path}: {reason}"));
    let response = client.send(request).await;
    let response = response.inspect_err(|err| unmet(&error_chain(err)))?;
    let status = response.status();
    if status.is_success() {
        if watch {
            condition.set_met();
        }
        return Ok(response);
    }
    if status == StatusCode::GONE {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = body.collect_bytes().await;
    let body = body.inspect_err(|err| unmet(&error_chain(err)))?;
    unmet(&refusal(status, &body));
    Ok(Response::from_parts(parts, Body::from(body)))
}

/// The status, with the server's message if the body is a Kubernetes `Status`.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<Status>(body) {
        Ok(answer) if !answer.message.is_empty() => format!("{status}: {}", answer.message),
        _ => status.to_string(),
    }
}

#[cfg(test)]
mod tests;
