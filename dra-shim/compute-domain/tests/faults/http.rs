//! An API server's HTTP, without TLS.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A request for objects of one kind.
pub(crate) struct Request {
    /// Method and kind, such as `get resourceclaims`.
    pub(crate) what: String,
    pub(crate) name: String,
    pub(crate) watches: bool,
    pub(crate) body: Vec<u8>,
}

/// Reads a request. `None` at the end of the connection.
pub(crate) async fn read(
    connection: &mut BufReader<TcpStream>,
) -> std::io::Result<Option<Request>> {
    let mut first = String::new();
    if connection.read_line(&mut first).await? == 0 {
        return Ok(None);
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break; // the empty line
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await?;
    let mut words = first.split(' ');
    let (method, url) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let (kind, name) = kind_and_name(path);
    Ok(Some(Request {
        what: format!("{} {kind}", method.to_ascii_lowercase()),
        name,
        watches: query.contains("watch=true"),
        body,
    }))
}

/// Parses `/apis/GROUP/VERSION[/namespaces/NS]/KIND[/NAME[/SUBRESOURCE]]`, or the core group's form.
fn kind_and_name(path: &str) -> (String, String) {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let of_version = if parts[0] == "api" { 2 } else { 3 };
    let rest = parts.get(of_version..).unwrap_or_default();
    match rest {
        ["namespaces", _, kind] | [kind] => ((*kind).to_owned(), String::new()),
        ["namespaces", _, kind, name] | [kind, name] => ((*kind).to_owned(), (*name).to_owned()),
        ["namespaces", _, kind, name, sub] => (format!("{kind}/{sub}"), (*name).to_owned()),
        _ => (path.to_owned(), String::new()),
    }
}

pub(crate) async fn write(
    connection: &mut BufReader<TcpStream>,
    code: u16,
    body: &Value,
) -> std::io::Result<()> {
    let body = body.to_string();
    let retry_after = if code == 429 {
        "Retry-After: 1\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\n{retry_after}Content-Length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all((head + &body).as_bytes()).await
}

/// Answers a watch without any events.
pub(crate) async fn watch(mut connection: BufReader<TcpStream>) -> std::io::Result<()> {
    let head =
        b"HTTP/1.1 200 x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    connection.write_all(head).await?;
    let mut ignored = Vec::new();
    connection.read_to_end(&mut ignored).await?;
    Ok(())
}
