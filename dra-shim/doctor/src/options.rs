//! What of a host is read and where it is, and the commands of `cdi-gen` that fixes name.

use std::path::{Path, PathBuf};

use imex_cdi::DEFAULT_DIRS;

use crate::text::shell_quote;

/// kubelet's root directory, unless it was given another (`--root-dir`).
pub const DEFAULT_KUBELET_ROOT: &str = "/var/lib/kubelet";

/// The root of a driver that is installed on the host.
pub const DEFAULT_DRIVER_ROOT: &str = "/";

/// Where a host has what differs between distributions. Paths are the host's
/// own names, whatever root the host is examined through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// kubelet's root directory; [`DEFAULT_KUBELET_ROOT`] by default.
    pub kubelet_root: PathBuf,
    /// The directory below which the NVIDIA driver is installed; `/` by default,
    /// which is also searched for the roots of drivers within it
    /// ([`nvml_clique::DriverRoot::find_library`]).
    pub driver_root: PathBuf,
    /// The directories of CDI specs, lowest priority first;
    /// [`imex_cdi::DEFAULT_DIRS`] by default.
    pub spec_dirs: Vec<PathBuf>,
    /// The command socket of the host IMEX daemon. With it
    /// `nvidia-imex-ctl` is run; without it, which is the default, the daemon is
    /// not asked.
    pub imex_socket: Option<PathBuf>,
}

/// The plain command that generates specs.
pub(crate) const GENERATE: &str = "cdi-gen generate";

/// How `cdi-gen` is called for the host that is examined: fixes repeat these
/// options, so that their commands can be copied.
///
/// It does not have to be the program that runs: a node agent that shows fixes to
/// people names the `cdi-gen` that they would run, and its root, here.
///
/// The default is for a host that is examined from itself, with the usual
/// directories: plain commands.
#[derive(Debug, Clone)]
pub struct Invocation {
    root: PathBuf,
    options: Options,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            kubelet_root: DEFAULT_KUBELET_ROOT.into(),
            driver_root: DEFAULT_DRIVER_ROOT.into(),
            spec_dirs: DEFAULT_DIRS.map(PathBuf::from).to_vec(),
            imex_socket: None,
        }
    }
}

// === impl Invocation ===

impl Default for Invocation {
    fn default() -> Self {
        Self::new("/", Options::default())
    }
}

impl Invocation {
    /// For a host whose root is at `root`.
    pub fn new(root: impl Into<PathBuf>, options: Options) -> Self {
        let root = root.into();
        Self { root, options }
    }

    /// Generates specs of this host; which devices is left to the person who
    /// runs it.
    pub(crate) fn generate(&self) -> String {
        let mut line = GENERATE.to_owned();
        self.push_root(&mut line);
        line
    }

    /// Examines the host again, with another root directory of kubelet.
    pub(crate) fn doctor(&self, kubelet_root: &Path) -> String {
        let mut line = "cdi-gen doctor".to_owned();
        self.push_root(&mut line);
        if kubelet_root != Path::new(DEFAULT_KUBELET_ROOT) {
            push_option("--kubelet-root", kubelet_root, &mut line);
        }
        if self.options.driver_root != Path::new(DEFAULT_DRIVER_ROOT) {
            push_option("--driver-root", &self.options.driver_root, &mut line);
        }
        let dirs = &self.options.spec_dirs;
        if !dirs.iter().eq(DEFAULT_DIRS.map(Path::new)) {
            for dir in dirs {
                push_option("--spec-dir", dir, &mut line);
            }
        }
        if let Some(socket) = &self.options.imex_socket {
            push_option("--imex-socket", socket, &mut line);
        }
        line
    }

    fn push_root(&self, line: &mut String) {
        if self.root != Path::new("/") {
            push_option("--root", &self.root, line);
        }
    }
}

/// Quoted for a shell, where it needs that.
fn push_option(flag: &str, path: &Path, line: &mut String) {
    line.extend([" ", flag, " ", &shell_quote(&path.to_string_lossy())]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_options_that_are_not_the_default_and_no_others() {
        let plain = Invocation::default();
        assert_eq!(plain.generate(), "cdi-gen generate");
        let k0s = Path::new("/var/lib/k0s/kubelet");
        let other = "cdi-gen doctor --kubelet-root /var/lib/k0s/kubelet";
        assert_eq!(plain.doctor(k0s), other);

        let options = Options {
            kubelet_root: k0s.to_owned(),
            driver_root: "/opt/driver".into(),
            spec_dirs: ["/etc/cdi", "/opt/it's here"].map(PathBuf::from).to_vec(),
            imex_socket: Some("/run/imex.sock".into()),
        };
        let full = Invocation::new("/host", options);
        assert_eq!(full.generate(), "cdi-gen generate --root /host");
        let common = "--root /host --kubelet-root /var/lib/k0s/kubelet";
        assert_eq!(
            full.doctor(k0s),
            format!(
                r"cdi-gen doctor {common} --driver-root /opt/driver --spec-dir /etc/cdi --spec-dir '/opt/it'\''s here' --imex-socket /run/imex.sock"
            )
        );
    }
}
