//! The name, version and settings that kubelet's runtime reports.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use toml::{Table, Value};

use super::model::{CdiSettings, CdiSupport, DefaultHandler, RuntimeKind};
use super::written::strings;
use crate::cri::{self, CriError};
use crate::host::Host;
use crate::packages;

const NOTHING: &str = "the runtime's response has no configuration";
const NOT_JSON: &str = "the configuration in the runtime's response is not JSON";

/// The answer of the runtime at a socket.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) kind: RuntimeKind,
    pub(super) version: Option<String>,
    pub(super) settings: CdiSettings,
}

/// Queries name and version, and then the configuration, which depends on the runtime.
pub(super) fn ask(host: &Host, socket: &Path) -> Result<Answer, CriError> {
    let cri::Version { name, version } = cri::version(socket)?;
    let unknown = |error: CriError| {
        let why = format!("querying the runtime's configuration failed: {error}");
        only(CdiSupport::Unknown(why))
    };
    let version = packages::release(&version);
    let (kind, version, settings) = match name.as_str() {
        "containerd" => {
            let info = cri::verbose_status(socket);
            let settings = info.map(|it| of_containerd(host, &it));
            (RuntimeKind::Containerd, version, settings)
        }
        "cri-o" => {
            let config = cri::crio_config(socket);
            let settings = config.map(|it| of_crio(host, &it));
            (RuntimeKind::CriO, version, settings)
        }
        // cri-dockerd answers with Docker's name and version.
        "docker" => (RuntimeKind::CriDockerd, None, Ok(only(CdiSupport::Absent))),
        _ => {
            let why =
                format!("the runtime reports the name {name:?}, which is not a known runtime");
            let settings = only(CdiSupport::Unknown(why));
            (RuntimeKind::Other, version, Ok(settings))
        }
    };
    Ok(Answer {
        kind,
        version,
        settings: settings.unwrap_or_else(unknown),
    })
}

/// Settings of which only the support of CDI is known.
pub(super) fn only(support: CdiSupport) -> CdiSettings {
    CdiSettings {
        support,
        spec_dirs: None,
        default_handler: None,
    }
}

/// Reads `config`, which containerd merges from all its files. 1.6 has neither of the members; a
/// release with CDI always on does not have the first.
fn of_containerd(host: &Host, info: &BTreeMap<String, String>) -> CdiSettings {
    let config = match info
        .get("config")
        .map(|it| serde_json::from_str::<Json>(it))
    {
        Some(Ok(config)) => config,
        Some(Err(_)) => return only(CdiSupport::Unknown(NOT_JSON.to_owned())),
        None => return only(CdiSupport::Unknown(NOTHING.to_owned())),
    };
    let dirs = config.get("cdiSpecDirs").and_then(Json::as_array);
    let support = match config.get("enableCDI").and_then(Json::as_bool) {
        Some(false) => CdiSupport::Off,
        Some(true) => CdiSupport::On,
        None if dirs.is_some() => CdiSupport::On,
        None => CdiSupport::Absent,
    };
    let text = |pointer: &str| config.pointer(pointer).and_then(Json::as_str);
    let handler = text("/containerd/defaultRuntimeName").and_then(|name| {
        let at = format!("/containerd/runtimes/{name}");
        // Other shims have options of their own.
        let kind = text(&format!("{at}/runtimeType"))?;
        let program = text(&format!("{at}/options/BinaryName"))?;
        kind.contains(".runc.").then_some((name, program))
    });
    CdiSettings {
        support,
        spec_dirs: dirs.map(|dirs| {
            let dirs = dirs.iter().filter_map(Json::as_str);
            dirs.map(str::to_owned).collect()
        }),
        default_handler: handler.and_then(|(name, program)| look_up(host, name, program)),
    }
}

fn of_crio(host: &Host, config: &str) -> CdiSettings {
    let config = config.parse::<Table>().ok();
    let runtime = config
        .as_ref()
        .and_then(|it| it.get("crio")?.get("runtime"));
    let Some(runtime) = runtime else {
        return only(CdiSupport::Unknown(NOTHING.to_owned()));
    };
    let spec_dirs = runtime.get("cdi_spec_dirs").and_then(strings);
    let name = runtime.get("default_runtime").and_then(Value::as_str);
    let handler = name.and_then(|name| {
        let program = runtime.get("runtimes")?.get(name)?.get("runtime_path")?;
        look_up(host, name, program.as_str()?)
    });
    CdiSettings {
        support: spec_dirs
            .as_ref()
            .map_or(CdiSupport::Absent, |_| CdiSupport::On),
        spec_dirs,
        default_handler: handler,
    }
}

/// `None` for a name, which the runtime looks up itself, and for a program that cannot be
/// examined.
fn look_up(host: &Host, name: &str, program: &str) -> Option<DefaultHandler> {
    let exists = host.try_exists(program).ok()?;
    program.starts_with('/').then(|| DefaultHandler {
        name: name.to_owned(),
        program: program.to_owned(),
        exists,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};
    use std::{env, fs, thread};

    use super::*;

    /// Recorded answers of releases: the members that are read here, and some others.
    const RECORDED: [(&str, &str); 3] = [
        ("1.6.20", include_str!("answers/containerd-1.6.20.json")),
        ("1.7.28", include_str!("answers/containerd-1.7.28.json")),
        ("2.3.3", include_str!("answers/containerd-2.3.3.json")),
    ];

    #[test]
    fn recorded_answers_of_containerd_releases_are_parsed() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::open(root.path()).unwrap();
        let expected = [CdiSupport::Absent, CdiSupport::Off, CdiSupport::On];
        for ((release, config), support) in RECORDED.into_iter().zip(expected) {
            let info = BTreeMap::from([("config".to_owned(), config.to_owned())]);
            let settings = of_containerd(&host, &info);
            assert_eq!(settings.support, support, "{release}");
            let usual = ["/etc/cdi", "/var/run/cdi"].map(str::to_owned).to_vec();
            let dirs = (support != CdiSupport::Absent).then_some(usual);
            assert_eq!(settings.spec_dirs, dirs, "{release}");
        }
        // Only this one was recorded with a path for runc.
        let (_, config) = RECORDED[2];
        let info = BTreeMap::from([("config".to_owned(), config.to_owned())]);
        let handler = of_containerd(&host, &info).default_handler.unwrap();
        assert_eq!(handler.program, "/usr/sbin/runc");
        assert!(!handler.exists);
    }

    #[test]
    fn an_answer_without_a_configuration_is_not_judged() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::open(root.path()).unwrap();
        let unknown = |settings: CdiSettings| matches!(settings.support, CdiSupport::Unknown(_));
        for config in ["", "{", "[]x"] {
            let info = BTreeMap::from([("config".to_owned(), config.to_owned())]);
            assert!(unknown(of_containerd(&host, &info)), "{config}");
        }
        assert!(unknown(of_containerd(&host, &BTreeMap::new())));
        assert!(unknown(of_crio(&host, "not TOML")));
        assert!(unknown(of_crio(&host, "[crio]\n")));
    }

    /// A containerd that ends with the test, also if the test fails.
    struct Containerd(Child);

    impl Drop for Containerd {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    /// The answer of containerd with these lines at the top of its configuration, and these tables.
    fn asked(dir: &Path, top: &str, tables: &str) -> Result<Answer, CriError> {
        let at = dir.display();
        let config = format!(
            "version = 3\nroot = '{at}/root'\nstate = '{at}/state'\n{top}\n\
             [grpc]\naddress = '{at}/containerd.sock'\n\
             [plugins.'io.containerd.internal.v1.opt']\npath = '{at}/opt'\n\
             [plugins.'io.containerd.nri.v1.nri']\ndisable = true\n\
             [plugins.'io.containerd.cri.v1.images']\nsnapshotter = 'native'\n{tables}\n"
        );
        let path = dir.join("config.toml");
        fs::write(&path, config).unwrap();
        let mut command = Command::new(env::var_os("CONTAINERD").unwrap());
        let log = fs::File::create(dir.join("log")).unwrap();
        command.arg("--config").arg(&path).stderr(log);
        let _containerd = Containerd(command.spawn().unwrap());
        let host = Host::open(Path::new("/")).unwrap();
        let began = Instant::now();
        loop {
            // containerd listens before its CRI plugin serves.
            match ask(&host, &dir.join("containerd.sock")) {
                Err(CriError::Absent | CriError::Failed(_))
                    if began.elapsed() < Duration::from_secs(60) =>
                {
                    thread::sleep(Duration::from_millis(100));
                }
                answer => return answer,
            }
        }
    }

    #[test]
    #[ignore = "runs $CONTAINERD, as root"]
    fn containerd_itself_answers_with_its_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let table = "[plugins.'io.containerd.cri.v1.runtime']";
        let off = asked(dir.path(), "", &format!("{table}\nenable_cdi = false")).unwrap();
        assert_eq!(off.kind, RuntimeKind::Containerd);
        assert!(off.version.is_some_and(|it| it.starts_with("2.")));
        assert_eq!(off.settings.support, CdiSupport::Off);

        let dirs = format!("{table}\ncdi_spec_dirs = ['/etc/cdi']");
        let on = asked(dir.path(), "", &dirs).unwrap().settings;
        assert_eq!(on.support, CdiSupport::On);
        assert_eq!(on.spec_dirs, Some(vec!["/etc/cdi".to_owned()]));

        let disabled = "disabled_plugins = ['io.containerd.grpc.v1.cri']";
        let without = asked(dir.path(), disabled, "");
        assert!(matches!(without, Err(CriError::WithoutCri)), "{without:?}");
    }
}
