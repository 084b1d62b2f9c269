//! Finds the container's root file system from the state that the runtime passes to a hook (OCI runtime
//! specification, "State").

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use dra_common::read_bounded;
use serde::Deserialize;

use crate::error::HookError;

const MAX_STATE: u64 = 1 << 20;
/// A config has every environment variable and mount of a container.
const MAX_CONFIG: u64 = 16 << 20;

#[derive(Deserialize)]
struct State {
    bundle: PathBuf,
    /// An extension of crun. Its hook may not be allowed to read the bundle.
    root: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Config {
    root: Option<ConfigRoot>,
}

#[derive(Deserialize)]
struct ConfigRoot {
    path: PathBuf,
}

/// Reads the state from `file` or standard input, and returns the root's path.
pub(crate) fn container_root(file: Option<&Path>) -> Result<PathBuf, HookError> {
    let source_name = file.map_or_else(
        || "standard input".to_owned(),
        |it| it.display().to_string(),
    );
    let state = match file {
        Some(file) => read_bounded(file, MAX_STATE).map_err(|error| error.to_string()),
        None => read_stdin().map_err(|error| error.to_string()),
    };
    let state = state.and_then(|bytes| parse(&bytes));
    let state: State = state.map_err(|reason| HookError::State {
        source_name,
        reason,
    })?;
    let root = match state.root.filter(|root| !root.as_os_str().is_empty()) {
        Some(root) => root,
        None => configured_root(&state.bundle)?,
    };
    let path = state.bundle.join(&root);
    if root.as_os_str().is_empty() || path.parent().is_none() {
        return Err(HookError::NoRoot(root));
    }
    Ok(path)
}

fn configured_root(bundle: &Path) -> Result<PathBuf, HookError> {
    let path = bundle.join("config.json");
    let config = read_bounded(&path, MAX_CONFIG).map_err(|error| error.to_string());
    let config: Result<Config, String> = config.and_then(|bytes| parse(&bytes));
    let root = config.map_err(|reason| HookError::Bundle { path, reason })?;
    Ok(root.root.map(|root| root.path).unwrap_or_default())
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut input = io::stdin().lock().take(MAX_STATE + 1);
    input.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_STATE {
        let reason = format!("it is longer than {MAX_STATE} bytes");
        return Err(io::Error::other(reason));
    }
    Ok(bytes)
}

fn parse<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn root_of(state: &str, config: &str) -> Result<PathBuf, String> {
        let dir = tempfile::tempdir().unwrap();
        let bundle = dir.path().join("bundle");
        fs::create_dir(&bundle).unwrap();
        fs::write(bundle.join("config.json"), config).unwrap();
        let file = dir.path().join("state.json");
        fs::write(&file, state.replace("BUNDLE", bundle.to_str().unwrap())).unwrap();
        let root = container_root(Some(&file)).map_err(|error| error.to_string())?;
        Ok(root.strip_prefix(&bundle).unwrap_or(&root).to_owned())
    }

    #[test]
    fn the_root_is_the_bundles_or_the_states() {
        let state = r#"{"ociVersion": "1.2.0", "id": "a", "bundle": "BUNDLE", "pid": 1}"#;
        let config = r#"{"root": {"path": "rootfs", "readonly": true}, "mounts": []}"#;
        assert_eq!(root_of(state, config).unwrap(), Path::new("rootfs"));
        let config = r#"{"root": {"path": "/run/rootfs"}}"#;
        assert_eq!(root_of(state, config).unwrap(), Path::new("/run/rootfs"));
        let state = r#"{"bundle": "BUNDLE", "root": "/crun/root"}"#;
        assert_eq!(root_of(state, "").unwrap(), Path::new("/crun/root"));
    }

    #[test]
    fn the_host_is_no_container() {
        let state = r#"{"bundle": "BUNDLE"}"#;
        for config in [
            r#"{"root": {"path": "/"}}"#,
            r#"{"root": {"path": ""}}"#,
            "{}",
        ] {
            let error = root_of(state, config).unwrap_err();
            assert!(error.starts_with("the container's root is"), "{error}");
        }
    }

    #[test]
    fn an_unreadable_state_or_config_is_named_with_the_reason() {
        let error = root_of("{", "{}").unwrap_err();
        assert!(error.contains("state.json: EOF"), "{error}");
        let error = root_of(r#"{"bundle": "BUNDLE"}"#, "[").unwrap_err();
        assert!(error.contains("bundle/config.json: EOF"), "{error}");
    }
}
