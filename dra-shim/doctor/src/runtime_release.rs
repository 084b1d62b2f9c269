//! The newest CDI version that each release of a container runtime loads.

use std::str::FromStr;

use imex_cdi::SpecVersion;
use serde::Serialize;

use crate::runtime_table::{ROWS, Row};

/// A release of a container runtime, and the newest CDI version that it loads.
///
/// Parsed from `containerd-1.7.27`, or from `containerd://1.7.27` as in a node's status. Its
/// CDI version is that of the newest release in the table that is not newer; releases between
/// two rows may load more, never less.
///
/// ```
/// use host_doctor::RuntimeRelease;
///
/// let release: RuntimeRelease = "containerd://2.0.5-k3s1".parse()?;
/// assert_eq!(release.basis(), "containerd-2.0.5");
/// assert_eq!(release.newest().to_string(), "1.0.0");
/// # Ok::<(), host_doctor::UnknownRuntime>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeRelease {
    /// The name as it was given.
    name: String,
    /// The release whose row of the table applies.
    basis: String,
    newest: &'static str,
    #[serde(skip)]
    row: Row,
}

/// The error for a text that is no runtime release with a known CDI version.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct UnknownRuntime {
    message: String,
    /// The form of a release, if the text has another form.
    form: &'static str,
}

// === impl RuntimeRelease ===

impl RuntimeRelease {
    /// The name as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The release in the table whose row applies, `containerd-1.7.20`.
    pub fn basis(&self) -> &str {
        &self.basis
    }

    /// The newest CDI version that it loads. It refuses a spec of a newer version as a whole.
    pub fn newest(&self) -> SpecVersion {
        self.row.newest
    }
}

impl FromStr for RuntimeRelease {
    type Err = UnknownRuntime;

    fn from_str(text: &str) -> Result<Self, UnknownRuntime> {
        let form = |text: &str| UnknownRuntime {
            message: format!("{text:?} is not a runtime name and version"),
            form: "write the runtime's name, a dash and its version; ",
        };
        let unknown = |message: String| UnknownRuntime { message, form: "" };
        let (name, runtime, version) = parts(text).ok_or_else(|| form(text))?;
        let release = release(version).ok_or_else(|| form(&name))?;
        let mut rows = ROWS.iter().filter(|row| row.runtime == runtime).peekable();
        let Some(oldest) = rows.peek().map(|row| row.name()) else {
            return Err(unknown(format!("unknown runtime {runtime:?}")));
        };
        let row = rows.take_while(|row| row.release <= release).last();
        let Some(row) = row.copied() else {
            return Err(unknown(format!(
                "{name} is older than {oldest}, the first release known to load CDI specs"
            )));
        };
        Ok(Self {
            name,
            basis: row.name(),
            newest: row.newest.as_str(),
            row,
        })
    }
}

/// Parses name, runtime and version of `containerd-1.7.27`. Also accepts versions as packages
/// and runtimes print them, `podman-4:4.9.3+ds1-1build2` with the name `podman-4.9.3`, and the
/// form in a node's status, `containerd://1.7.27-k3s1`.
fn parts(text: &str) -> Option<(String, &str, &str)> {
    let is_version = |text: &str| {
        let digits = text.strip_prefix('v').unwrap_or(text);
        digits.starts_with(|c: char| c.is_ascii_digit())
    };
    let by_kubelet = text.split_once("://");
    let mut dashes = text.match_indices('-');
    let (runtime, version) = by_kubelet.or_else(|| {
        dashes.find_map(|(at, dash)| {
            let (runtime, version) = (text.get(..at)?, text.get(at + dash.len()..)?);
            is_version(version).then_some((runtime, version))
        })
    })?;
    let version = match version.split_once(':') {
        Some((epoch, version)) if epoch.bytes().all(|byte| byte.is_ascii_digit()) => version,
        _ => version,
    };
    let version = version.split(['-', '+', '~']).next()?;
    let name = match by_kubelet {
        Some(_) => text.to_owned(),
        None => format!("{runtime}-{version}"),
    };
    // The program's name, and the project's.
    let runtime = if runtime == "crio" { "cri-o" } else { runtime };
    Some((name, runtime, version))
}

/// Parses a version. `2.1` stands for the first release of its line, which loads the least.
pub(crate) fn release(version: &str) -> Option<[u32; 3]> {
    let mut release = [0; 3];
    let mut parts = version.strip_prefix('v').unwrap_or(version).split('.');
    for (at, place) in release.iter_mut().enumerate() {
        match parts.next() {
            Some(part) => *place = part.parse().ok()?,
            None if at == 0 => return None,
            None => {}
        }
    }
    parts.next().is_none().then_some(release)
}

// === impl UnknownRuntime ===

impl UnknownRuntime {
    /// The form and the known runtimes.
    pub fn hint(&self) -> String {
        let firsts = ROWS.chunk_by(|row, next| row.runtime == next.runtime);
        let firsts = firsts.filter_map(|rows| rows.first());
        let known: Vec<String> = firsts.map(|row| row.name()).collect();
        let (form, known) = (self.form, known.join(", "));
        format!("{form}known runtimes, each with its oldest supported release: {known}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newest(target: &str) -> SpecVersion {
        target.parse::<RuntimeRelease>().unwrap().newest()
    }

    #[test]
    fn a_release_loads_the_version_of_the_last_row_before_it() {
        use SpecVersion as V;
        for (target, version) in [
            ("containerd-1.7.0", V::V0_5_0),
            ("containerd-1.7", V::V0_5_0),
            ("containerd-1.7.12", V::V0_5_0),
            ("containerd-1.7.13", V::V0_6_0),
            ("containerd-v2.1", V::V1_0_0),
            ("containerd-2.1.7", V::V1_0_0),
            ("containerd-2.3.9", V::V1_1_0),
            ("containerd-9.0.0", V::V1_1_0),
            ("podman-4.9.3", V::V0_6_0),
            ("podman-4.2", V::V0_4_0),
            ("podman-5", V::V0_6_0),
            ("cri-o-1.24", V::V0_3_0),
            ("cri-o-1.25.5", V::V0_4_0),
            ("cri-o-1.28.4", V::V0_5_0),
            ("cri-o-1.30.14", V::V0_6_0),
            ("cri-o-1.34", V::V1_0_0),
            ("cri-o-1.36", V::V1_1_0),
            ("docker-25.0.5", V::V0_6_0),
            ("docker://26.1.4", V::V0_7_0),
            ("docker-v27.5.1", V::V0_8_0),
            ("docker-28.2.2", V::V1_0_0),
            ("crio-1.34", V::V1_0_0),
            ("cri-o://1.34.2", V::V1_0_0),
            ("containerd://1.7.27", V::V0_7_0),
            ("containerd://2.0.5-k3s1", V::V1_0_0),
        ] {
            assert_eq!(newest(target), version, "{target}");
        }
    }

    #[test]
    fn unknown_releases_are_errors_with_the_known_ones_as_hint() {
        for (target, reason) in [
            ("lxc-6.0", "unknown runtime \"lxc\""),
            ("cri-o-1.23", "cri-o-1.23 is older than cri-o-1.24.0"),
            ("docker-24.0.7", "docker-24.0.7 is older than docker-25.0.0"),
            (
                "containerd",
                "\"containerd\" is not a runtime name and version",
            ),
            ("containerd-x", "\"containerd-x\" is no"),
            ("containerd-1.2.3.4", "\"containerd-1.2.3.4\" is no"),
            ("podman-3.4", "podman-3.4 is older than podman-4.1.1"),
        ] {
            let error = target.parse::<RuntimeRelease>().unwrap_err();
            assert!(error.to_string().starts_with(reason), "{error}");
            let known = "known runtimes, each with its oldest supported release: containerd-1.7.0, \
                         cri-o-1.24.0, docker-25.0.0, podman-4.1.1";
            assert!(error.hint().ends_with(known), "{}", error.hint());
        }
    }

    #[test]
    fn a_version_of_a_package_is_that_of_its_release() {
        for (text, name) in [
            ("podman-4.9.3+ds1-1build2", "podman-4.9.3"),
            ("podman-4.9.4-rhel", "podman-4.9.4"),
            ("podman-4:5.2.2-13.el9_5", "podman-5.2.2"),
            ("containerd-1.7.27-0ubuntu1~24.04.1", "containerd-1.7.27"),
            ("containerd-v2.1.4-k3s1", "containerd-v2.1.4"),
            ("docker-5:28.2.2-1~ubuntu.24.04~noble", "docker-28.2.2"),
            ("cri-o-1.34.2-1.1", "cri-o-1.34.2"),
            ("cri-o-1.34", "cri-o-1.34"),
            (
                "containerd://1.7.27-0ubuntu1",
                "containerd://1.7.27-0ubuntu1",
            ),
        ] {
            assert_eq!(
                text.parse::<RuntimeRelease>().unwrap().name(),
                name,
                "{text}"
            );
        }
    }

    #[test]
    fn texts_without_a_version_are_refused() {
        for (text, reason) in [
            (
                "containerd",
                "\"containerd\" is not a runtime name and version",
            ),
            ("containerd-x", "\"containerd-x\" is no"),
            ("containerd-1.2.3.4", "\"containerd-1.2.3.4\" is no"),
            ("podman-3.4.4+ds1-1ubuntu1", "podman-3.4.4 is older than"),
        ] {
            let error = text.parse::<RuntimeRelease>().unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
