//! Commands of `cdi-gen` that fixes name.

use std::path::{Path, PathBuf};

use imex_cdi::DEFAULT_DIRS;

use crate::options::{DEFAULT_DRIVER_ROOT, DEFAULT_KUBELET_ROOT, Options};
use crate::shell::shell_quote;

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
