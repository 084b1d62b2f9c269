//! Docker: `daemon/config/config.go` of moby.

use serde_json::Value as Json;

use super::handlers::Configured;
use super::model::{CdiSupport, ContainerdFacts, Runtime, RuntimeKind, major_minor};
use super::options;
use super::running;
use crate::files::HostFiles;
use crate::packages;

const CONFIG: &str = "/etc/docker/daemon.json";
/// The first, major and minor, in which CDI is on by default.
const WITH_CDI: (u32, u32) = (28, 2);

/// The handler that Docker itself defines, with shims by their containerd names
/// (`setupRuntimes` of `daemon/runtime_unix.go`).
const OWN: &str = "runc";
/// The option that defines another one.
const ADDING: &[&str] = &["--add-runtime"];

/// The start of the names of NVIDIA's programs that are a runtime of Docker, and read CDI
/// specs themselves.
const NVIDIA_RUNTIME: &str = "nvidia-container-runtime";

/// Docker, as it is configured.
pub(super) struct Docker {
    pub(super) runtime: Runtime,
    /// Runtimes of its configuration that read CDI specs, whether or not Docker does.
    pub(super) cdi_runtimes: Vec<String>,
}

/// CDI is a feature that newer versions have on by default. Docker runs no pods of
/// kubelet.
pub(super) fn find(files: &HostFiles) -> Option<Docker> {
    let program = files.first_existing(&["/usr/bin/dockerd", "/usr/local/bin/dockerd"])?;
    let version = packages::version(files, &["docker-ce", "docker.io"], Some(program));
    let running = running::find(files, "dockerd").into_iter().next();
    let own = running.as_ref().and_then(|it| it.config.as_deref());
    let path = own.unwrap_or(CONFIG);
    let content = files.read(path).ok().flatten();
    let config = content.as_deref().map(parse);
    let is_broken = matches!(config, Some(Err(_)));
    let json = config.and_then(Result::ok).unwrap_or_default();
    let switch = json.pointer("/features/cdi").and_then(Json::as_bool);
    let dirs = json.get("cdi-spec-dirs").and_then(Json::as_array);
    let by_default = version.as_deref().and_then(major_minor);
    let by_default = by_default.map(|version| version >= WITH_CDI);
    let search = running.as_ref().and_then(|it| it.path.as_deref());
    let handler = default_runtime(files, &json, path);
    let runtime = Runtime {
        kind: RuntimeKind::Docker,
        cdi: match (switch, by_default) {
            (Some(true), _) | (None, Some(true)) => CdiSupport::On,
            (Some(false), _) | (None, Some(false)) => CdiSupport::Off,
            (None, None) => CdiSupport::Unknown,
        },
        version,
        spec_dirs: dirs.map(|dirs| {
            let dirs = dirs.iter().filter_map(Json::as_str);
            dirs.map(str::to_owned).collect()
        }),
        config: content.map(|_| path.to_owned()),
        config_error: is_broken.then(|| format!("{path} is not JSON")),
        cannot_start: is_broken,
        runs_pods: false,
        default_handler: handler.map(|it| it.look_up(files, search)),
        containerd: ContainerdFacts::default(),
    };
    Some(Docker {
        runtime,
        cdi_runtimes: cdi_runtimes(&json),
    })
}

/// An empty file is a configuration without settings, and a byte order mark tells the
/// encoding.
fn parse(content: &[u8]) -> serde_json::Result<Json> {
    let utf16 = |from: fn([u8; 2]) -> u16, rest: &[u8]| {
        let pairs = rest.as_chunks::<2>().0.iter();
        let units: Vec<u16> = pairs.map(|pair| from(*pair)).collect();
        String::from_utf16_lossy(&units)
    };
    let text = match content {
        [0xff, 0xfe, rest @ ..] => utf16(u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => utf16(u16::from_be_bytes, rest),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => String::from_utf8_lossy(content).into_owned(),
    };
    match text.trim() {
        "" => Ok(Json::Null),
        text => serde_json::from_str(text),
    }
}

/// `None` for runc, and for a shim by its containerd name.
fn default_runtime(files: &HostFiles, json: &Json, file: &str) -> Option<Configured> {
    let name = json.get("default-runtime")?.as_str()?;
    let Some(runtime) = json.get("runtimes").and_then(|it| it.get(name)) else {
        // A name with a dot is that of a shim.
        let is_own = name.is_empty() || name == OWN || name.contains(['.', '/']);
        return (!is_own && !options::may_have(files, "dockerd", "docker", ADDING)).then(|| {
            Configured::Undefined {
                name: name.to_owned(),
                file: file.to_owned(),
            }
        });
    };
    let program = runtime.get("path")?.as_str()?;
    (!program.is_empty()).then(|| Configured::Program {
        name: name.to_owned(),
        program: program.to_owned(),
        file: file.to_owned(),
        setting: format!("runtimes.{name}.path"),
    })
}

fn cdi_runtimes(json: &Json) -> Vec<String> {
    let runtimes = json.get("runtimes").and_then(Json::as_object);
    let runtimes = runtimes.into_iter().flat_map(|it| it.values());
    let programs = runtimes.filter_map(|it| it.get("path")?.as_str());
    let is_nvidias = |program: &&str| {
        let name = program.rsplit('/').next();
        name.is_some_and(|name| name.starts_with(NVIDIA_RUNTIME))
    };
    programs.filter(is_nvidias).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_and_a_byte_order_mark_are_no_errors() {
        let on = r#"{"features": {"cdi": true}}"#;
        let utf16 = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
            let marked = format!("\u{feff}{on}");
            marked.encode_utf16().flat_map(order).collect()
        };
        for content in [
            on.as_bytes().to_vec(),
            format!("\u{feff}{on}\n").into_bytes(),
            utf16(u16::to_le_bytes),
            utf16(u16::to_be_bytes),
        ] {
            let json = parse(&content).unwrap();
            assert_eq!(json.pointer("/features/cdi"), Some(&Json::Bool(true)));
        }
        assert_eq!(parse(b" \n").unwrap(), Json::Null);
        assert!(parse(br#"{"runtimes": {},}"#).is_err());
    }
}
