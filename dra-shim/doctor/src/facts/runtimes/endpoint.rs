//! The socket of kubelet's runtime.

use serde_json::Value as Json;

use super::candidates::{Running, plain, running};
use crate::host::Host;
use crate::kubelet_state::KUBELET_STATE_FILE;

/// Files that kubelet writes into its root directory.
const STATE: [&str; 3] = [KUBELET_STATE_FILE, "cpu_manager_state", "pods"];
const ENDPOINT: &str = "--container-runtime-endpoint";
/// The socket of the cri-dockerd that is built into k3s.
const K3S_DOCKER: &str = "/run/k3s/cri-dockerd/cri-dockerd.sock";

/// The kubelet of a host.
#[derive(Debug)]
pub(super) struct Kubelet {
    /// The socket that its options or its configuration name.
    pub(super) socket: Option<String>,
    /// Whether its process is visible.
    pub(super) runs: bool,
}

/// Finds kubelet by its process, or by its files.
pub(super) fn find(host: &Host, root: &str) -> Option<Kubelet> {
    let process = running(host, &["kubelet"]).into_iter().next();
    let has_state = STATE
        .iter()
        .any(|name| host.exists(&format!("{root}/{name}")));
    if process.is_none() && !has_state {
        return None;
    }
    let named = match &process {
        Some(process) => of_process(host, process),
        // As kubeadm starts it.
        None => in_flags(host, &format!("{root}/kubeadm-flags.env"))
            .or_else(|| in_config(host, &format!("{root}/config.yaml")))
            .or_else(|| of_rancher(host)),
    };
    Some(Kubelet {
        socket: named.map(|it| plain(&it)),
        runs: process.is_some(),
    })
}

/// The socket in kubelet's options and files. An option precedes the files of `--config-dir`, of
/// which the last decides, and these precede the file of `--config`.
fn of_process(host: &Host, process: &Running) -> Option<String> {
    let option = process.option(&[ENDPOINT]).map(str::to_owned);
    let in_dir = || {
        let dir = process.option(&["--config-dir"])?;
        let names = host.list(dir).into_iter().rev();
        let mut names = names.filter(|name| name.strip_suffix(".conf").is_some());
        names.find_map(|name| in_config(host, &format!("{dir}/{name}")))
    };
    let in_file = || in_config(host, process.option(&["--config"])?);
    option.or_else(in_dir).or_else(in_file)
}

/// The socket in the options and files of k3s, which runs kubelet in its own process, and RKE2,
/// which starts kubelet.
fn of_rancher(host: &Host) -> Option<String> {
    let running = running(host, &["k3s-server", "k3s-agent", "k3s", "rke2"]);
    let by_option = |process: Running| {
        let docker = process.has(&["--docker"]).then(|| K3S_DOCKER.to_owned());
        let named = process.option(&[ENDPOINT]).map(str::to_owned);
        named.or(docker)
    };
    let by_file = || {
        let found = ["k3s", "rke2"].into_iter().flat_map(|name| {
            let dir = format!("/etc/rancher/{name}/config.yaml.d");
            let drop_ins = host.list(&dir).into_iter().rev();
            let drop_ins = drop_ins.map(move |file| format!("{dir}/{file}"));
            drop_ins.chain([format!("/etc/rancher/{name}/config.yaml")])
        });
        let texts = found.filter_map(|path| host.text_if_readable(&path));
        texts.into_iter().find_map(|text| {
            let docker = value(&text, "docker").filter(|it| *it == "true");
            let named = value(&text, "container-runtime-endpoint");
            named
                .or_else(|| docker.map(|_| K3S_DOCKER))
                .map(str::to_owned)
        })
    };
    running.into_iter().find_map(by_option).or_else(by_file)
}

/// `containerRuntimeEndpoint` of a `KubeletConfiguration` in JSON or YAML.
fn in_config(host: &Host, path: &str) -> Option<String> {
    const KEY: &str = "containerRuntimeEndpoint";
    let text = host.text_if_readable(path)?;
    match serde_json::from_str::<Json>(&text) {
        Ok(config) => config.get(KEY)?.as_str().map(str::to_owned),
        Err(_) => value(&text, KEY).map(str::to_owned),
    }
}

/// The value of a top-level key in YAML.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let value = value.split(" #").next().unwrap_or_default();
    let value = value.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then_some(value)
}

fn in_flags(host: &Host, path: &str) -> Option<String> {
    let text = host.text_if_readable(path)?;
    let mut words = text.split(|it: char| it.is_whitespace() || "\"'".contains(it));
    let value = words.find_map(|word| word.strip_prefix(ENDPOINT)?.strip_prefix('='))?;
    Some(value.to_owned())
}
