//! Just enough HTTP/2 to send one gRPC request with any `:authority`.

use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
pub const PROTOCOL_ERROR: [u8; 4] = [0, 0, 0, 1];

pub struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    pub payload: Vec<u8>,
}

pub fn kinds(frames: &[Frame]) -> Vec<u8> {
    frames.iter().map(|frame| frame.kind).collect()
}

/// `GetInfo` on `socket` with the authority that belongs to `named`; the frames
/// of its stream up to the end.
pub async fn get_info(socket: &Path, named: &Path) -> Vec<Frame> {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/pluginregistration.Registration/GetInfo"),
        (":authority", &encoded(named.to_str().unwrap())),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "999971u"),
    ] {
        // Literal without indexing, new name (RFC 7541, 6.2.2).
        headers.push(0);
        push_string(&mut headers, name);
        push_string(&mut headers, value);
    }
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    push_frame(&mut request, SETTINGS, 0, 0, &[]);
    push_frame(&mut request, HEADERS, END_HEADERS, 1, &headers);
    // An empty gRPC message: not compressed, length 0.
    push_frame(&mut request, DATA, END_STREAM, 1, &[0; 5]);
    stream.write_all(&request).await.unwrap();

    let mut frames = Vec::new();
    loop {
        let frame = read_frame(&mut stream).await;
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            let mut acknowledgement = Vec::new();
            push_frame(&mut acknowledgement, SETTINGS, ACK, 0, &[]);
            stream.write_all(&acknowledgement).await.unwrap();
        }
        if frame.stream == 1 && [DATA, HEADERS, RST_STREAM].contains(&frame.kind) {
            let last = frame.kind == RST_STREAM || frame.flags & END_STREAM != 0;
            frames.push(frame);
            if last {
                return frames;
            }
        }
    }
}

/// As grpc-go encodes an authority: everything but unreserved characters,
/// sub-delimiters and `:[]@` as `%XX`.
fn encoded(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ if b"-_.~!$&'()*+,;=:[]@".contains(&byte) => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// HPACK string literal without Huffman code; the length is an integer with a
/// 7-bit prefix (RFC 7541, 5.1).
fn push_string(out: &mut Vec<u8>, text: &str) {
    match text.len().checked_sub(127) {
        None => out.push(u8::try_from(text.len()).unwrap()),
        Some(mut rest) => {
            out.push(127);
            while rest >= 128 {
                out.push(u8::try_from(rest % 128).unwrap() | 0x80);
                rest /= 128;
            }
            out.push(u8::try_from(rest).unwrap());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

async fn read_frame(stream: &mut UnixStream) -> Frame {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).await.unwrap();
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Frame {
        kind: head[3],
        flags: head[4],
        stream,
        payload,
    }
}
