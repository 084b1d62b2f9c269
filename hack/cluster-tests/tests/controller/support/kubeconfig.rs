//! Kubeconfigs other than the admin's: with another address, or another identity.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use cluster_tests::admin_kubeconfig;

use super::{Fixture, Proxy};

/// Writes a kubeconfig that uses the proxy.
pub(crate) fn through_proxy(
    on: &Fixture,
    proxy: &Proxy,
    config: Option<PathBuf>,
) -> Result<PathBuf> {
    let text = fs::read_to_string(config.map_or_else(admin_kubeconfig, Ok)?)?;
    let address = value_of(&text, "server: \"https://")?;
    let host = address.split(':').next().context("no host")?;
    // The certificate is the server's.
    let text = text.replace(
        &format!("server: \"https://{address}\""),
        &format!(
            "server: \"https://{}\", tls-server-name: \"{host}\"",
            proxy.address()
        ),
    );
    write(on, "proxy", &text)
}

/// Writes a kubeconfig with this token.
pub(crate) fn with_token(on: &Fixture, token: &str) -> Result<PathBuf> {
    let text = fs::read_to_string(admin_kubeconfig()?)?;
    let admin = value_of(&text, "token: \"")?;
    write(on, "token", &text.replace(admin, token))
}

/// The API server's address and port.
pub(super) fn server_address() -> Result<String> {
    let text = fs::read_to_string(admin_kubeconfig()?)?;
    value_of(&text, "server: \"https://").map(str::to_owned)
}

fn value_of<'a>(text: &'a str, start: &str) -> Result<&'a str> {
    let (_, rest) = text.split_once(start).context("no such value")?;
    Ok(rest.split_once('"').context("no end of the value")?.0)
}

fn write(on: &Fixture, kind: &str, text: &str) -> Result<PathBuf> {
    let path = admin_kubeconfig()?.with_file_name(format!("{}-{kind}", on.namespace));
    fs::write(&path, text)?;
    Ok(path)
}
