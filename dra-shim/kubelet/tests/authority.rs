//! The riskiest line of the protocol: kubelet dials the registration socket with
//! its percent-encoded path as `:authority`. No gRPC library sends that, so this
//! speaks HTTP/2 by hand.
#![allow(missing_docs, reason = "a test")]

#[cfg(test)]
mod support;

use std::path::Path;

use support::http2::{DATA, HEADERS, PROTOCOL_ERROR, RST_STREAM, get_info, kinds};
use support::{Claims, Script, soon, start};

#[tokio::test]
async fn kubelets_call_with_the_path_as_authority_is_answered() {
    let running = start(Script::instant(), Claims::default());
    let socket = running.registration_socket();
    let frames = soon("an answer", get_info(&socket, &socket)).await;
    assert_eq!(kinds(&frames), [HEADERS, DATA, HEADERS]);
    let data = &frames[1].payload;
    assert!(
        data.windows(9).any(|window| window == b"DRAPlugin"),
        "{data:?}"
    );
}

/// The counter-test: without the `@` in the name the same server resets the
/// stream, so the test above can fail.
#[tokio::test]
async fn the_same_call_for_a_name_without_an_at_sign_is_reset() {
    let running = start(Script::instant(), Claims::default());
    let socket = running.registration_socket();
    let plain = socket.to_str().unwrap().replace('@', "-");
    let frames = soon("an answer", get_info(&socket, Path::new(&plain))).await;
    assert_eq!(kinds(&frames), [RST_STREAM]);
    assert_eq!(frames[0].payload, PROTOCOL_ERROR);
}
