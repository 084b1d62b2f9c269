//! Just enough HTTP/2 to make a call with an `:authority` that is not valid in a URI, as
//! kubelet does on a registration socket without an `@` in its name. Servers based on `h2`
//! reset such a stream; others answer.

use std::io;
use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
const PROTOCOL_ERROR: u32 = 1;
/// The default limit of a frame (RFC 9113, 4.2).
const MAX_FRAME: usize = 1 << 14;
/// A gRPC message's head: not compressed, and its length in four bytes.
const PREFIX: usize = 5;

/// Calls `method` (`/SERVICE/METHOD`) over a new connection, and returns the answer's
/// bytes, or what kubelet would log. The answer's headers are not decoded, so a gRPC error
/// is recognised only by the missing message.
pub(super) async fn unary(
    socket: &Path,
    authority: &str,
    method: &str,
    message: &[u8],
) -> Result<Vec<u8>, String> {
    let answer = exchange(socket, authority, method, message).await;
    answer.map_err(|error| format!("transport: {error}"))?
}

async fn exchange(
    socket: &Path,
    authority: &str,
    method: &str,
    message: &[u8],
) -> io::Result<Result<Vec<u8>, String>> {
    let mut stream = UnixStream::connect(socket).await?;
    stream
        .write_all(&request(authority, method, message)?)
        .await?;
    let mut body = Vec::new();
    loop {
        let frame = read_frame(&mut stream).await?;
        match frame.kind {
            SETTINGS if frame.flags & ACK == 0 => {
                let mut acknowledgement = Vec::new();
                push_frame(&mut acknowledgement, SETTINGS, ACK, 0, &[])?;
                stream.write_all(&acknowledgement).await?;
            }
            RST_STREAM => return Ok(Err(reset(&frame.payload))),
            GOAWAY => return Ok(Err("the plugin closed the connection (GOAWAY)".to_owned())),
            DATA => body.extend_from_slice(&frame.payload),
            _ => {}
        }
        let last = [DATA, HEADERS].contains(&frame.kind) && frame.flags & END_STREAM != 0;
        if last {
            let message = body.get(PREFIX..).map(<[u8]>::to_vec);
            return Ok(message.ok_or_else(|| "the plugin answered with a gRPC error".to_owned()));
        }
    }
}

fn reset(code: &[u8]) -> String {
    let code = code.try_into().map_or(0, u32::from_be_bytes);
    let name = if code == PROTOCOL_ERROR {
        "PROTOCOL_ERROR".to_owned()
    } else {
        code.to_string()
    };
    format!("stream terminated by RST_STREAM with error code: {name}")
}

fn request(authority: &str, method: &str, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        // Literal without indexing, new name (RFC 7541, 6.2.2).
        headers.push(0);
        push_string(&mut headers, name);
        push_string(&mut headers, value);
    }
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    let mut data = vec![0];
    data.extend_from_slice(&length.to_be_bytes());
    data.extend_from_slice(message);

    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    push_frame(&mut request, SETTINGS, 0, 0, &[])?;
    push_frame(&mut request, HEADERS, END_HEADERS, 1, &headers)?;
    push_frame(&mut request, DATA, END_STREAM, 1, &data)?;
    Ok(request)
}

/// HPACK string literal without Huffman code; the length is an integer with a
/// 7-bit prefix (RFC 7541, 5.1).
fn push_string(out: &mut Vec<u8>, text: &str) {
    let low = |number: usize| u8::try_from(number & 127).unwrap_or_default();
    match text.len().checked_sub(127) {
        None => out.push(low(text.len())),
        Some(mut rest) => {
            out.push(127);
            while rest >= 128 {
                out.push(low(rest) | 128);
                rest >>= 7;
            }
            out.push(low(rest));
        }
    }
    out.extend_from_slice(text.as_bytes());
}

struct Frame {
    kind: u8,
    flags: u8,
    payload: Vec<u8>,
}

fn push_frame(
    out: &mut Vec<u8>,
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &[u8],
) -> io::Result<()> {
    if payload.len() > MAX_FRAME {
        return Err(io::Error::other("the request does not fit into a frame"));
    }
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let [_, length @ ..] = length.to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    Ok(())
}

async fn read_frame(stream: &mut UnixStream) -> io::Result<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let [a, b, c, kind, flags, ..] = head;
    let length = u32::from_be_bytes([0, a, b, c]);
    let length = usize::try_from(length).map_err(io::Error::other)?;
    if length > MAX_FRAME {
        return Err(io::Error::other("the plugin sent a frame too large"));
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    Ok(Frame {
        kind,
        flags,
        payload,
    })
}
