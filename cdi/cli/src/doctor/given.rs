//! Commands of this program, for the host that this run looks at.

use std::path::{Path, PathBuf};

use imex_cdi::DEFAULT_DIRS;

use crate::args::{DEFAULT_KUBELET_ROOT, Doctor};
use crate::host_node::GENERATE;

/// What this run was given and a command in a fix needs too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    root: &'a Path,
    kubelet: &'a Path,
    dirs: &'a [PathBuf],
    imex_socket: Option<&'a Path>,
}

impl<'a> Given<'a> {
    pub(super) fn of(args: &'a Doctor) -> Self {
        Self {
            root: &args.specs.root,
            kubelet: &args.kubelet.path,
            dirs: &args.specs.dirs,
            imex_socket: args.imex_socket.as_deref(),
        }
    }

    /// kubelet's root.
    pub(super) fn kubelet(&self) -> String {
        self.kubelet.display().to_string()
    }

    /// Removes orphans from the directories that were looked at.
    pub(super) fn gc(&self) -> String {
        let mut line = "cdi-gen gc --remove".to_owned();
        self.host(self.kubelet, &mut line);
        self.dirs("--cdi-dir", &mut line);
        line
    }

    /// Writes specs of this host; it is for who runs it to say of what.
    pub(super) fn generate(&self) -> String {
        let mut line = GENERATE.to_owned();
        self.root(&mut line);
        line
    }

    /// This run again, with another root of kubelet.
    pub(super) fn doctor(&self, kubelet: &Path) -> String {
        let mut line = "cdi-gen doctor".to_owned();
        self.host(kubelet, &mut line);
        self.dirs("--spec-dir", &mut line);
        if let Some(socket) = self.imex_socket {
            add("--imex-socket", socket, &mut line);
        }
        line
    }

    fn root(&self, line: &mut String) {
        if self.root != Path::new("/") {
            add("--root", self.root, line);
        }
    }

    fn host(&self, kubelet: &Path, line: &mut String) {
        self.root(line);
        if kubelet != Path::new(DEFAULT_KUBELET_ROOT) {
            add("--kubelet-root", kubelet, line);
        }
    }

    fn dirs(&self, flag: &str, line: &mut String) {
        if !self.dirs.iter().eq(DEFAULT_DIRS.map(Path::new)) {
            for dir in self.dirs {
                add(flag, dir, line);
            }
        }
    }
}

fn add(flag: &str, path: &Path, line: &mut String) {
    line.extend([" ", flag, " ", &word(&path.to_string_lossy())]);
}

/// A word of a shell's command line.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_what_this_run_was_given_and_nothing_else() {
        let usual = DEFAULT_DIRS.map(PathBuf::from);
        let bare = Given {
            root: Path::new("/"),
            kubelet: Path::new(DEFAULT_KUBELET_ROOT),
            dirs: &usual,
            imex_socket: None,
        };
        assert_eq!(bare.gc(), "cdi-gen gc --remove");
        assert_eq!(bare.generate(), "cdi-gen generate");
        let k0s = Path::new("/var/lib/k0s/kubelet");
        let other = "cdi-gen doctor --kubelet-root /var/lib/k0s/kubelet";
        assert_eq!(bare.doctor(k0s), other);

        let dirs = ["/etc/cdi", "/opt/it's here"].map(PathBuf::from);
        let all = Given {
            root: Path::new("/host"),
            kubelet: k0s,
            dirs: &dirs,
            imex_socket: Some(Path::new("/run/imex.sock")),
        };
        assert_eq!(all.generate(), "cdi-gen generate --root /host");
        let of_both = "--root /host --kubelet-root /var/lib/k0s/kubelet";
        assert_eq!(
            all.gc(),
            format!(
                r"cdi-gen gc --remove {of_both} --cdi-dir /etc/cdi --cdi-dir '/opt/it'\''s here'"
            )
        );
        assert_eq!(
            all.doctor(k0s),
            format!(
                r"cdi-gen doctor {of_both} --spec-dir /etc/cdi --spec-dir '/opt/it'\''s here' --imex-socket /run/imex.sock"
            )
        );
    }
}
