//! Options of reading a host, and the `cdi-gen` commands that fixes name.

use std::path::{Path, PathBuf};

use imex_cdi::DEFAULT_DIRS;

use crate::text::shell_quote;

/// kubelet's root directory by default (`--root-dir`).
pub const DEFAULT_KUBELET_ROOT: &str = "/var/lib/kubelet";

/// The root of a driver that is installed on the host.
pub const DEFAULT_DRIVER_ROOT: &str = "/";

/// Paths that differ between distributions. They are the host's own paths, whatever root the
/// host is examined through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// kubelet's root directory; [`DEFAULT_KUBELET_ROOT`] by default.
    pub kubelet_root: PathBuf,
    /// The directory below which the NVIDIA driver is installed; `/` by default. Driver roots
    /// nested in it are searched, too ([`nvml_clique::DriverRoot::find_library`]).
    pub driver_root: PathBuf,
    /// The directories of CDI specs, lowest priority first;
    /// [`imex_cdi::DEFAULT_DIRS`] by default.
    pub spec_dirs: Vec<PathBuf>,
    /// The command socket of the host's IMEX daemon, which `nvidia-imex-ctl` then queries.
    /// By default there is none, and the daemon is not queried.
    pub imex_socket: Option<PathBuf>,
}

/// The plain command that generates specs.
pub(crate) const GENERATE: &str = "cdi-gen generate";

/// The `cdi-gen` options for the examined host: fixes repeat them, so that their commands can
/// be copied.
///
/// The running program need not be `cdi-gen`: a node agent that shows fixes to people sets the
/// root here with which they would run `cdi-gen`.
///
/// The default gives plain commands, for a host that is examined from itself with the default
/// directories.
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

    /// The command that generates specs of this host; the user adds the devices.
    pub(crate) fn generate(&self) -> String {
        let mut line = GENERATE.to_owned();
        self.push_root(&mut line);
        line
    }

    /// The command that examines the host again with another root directory of kubelet.
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

/// Adds an option, quoted for a shell if necessary.
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
