//! The files of a driver as CDI edits.

use imex_cdi::{ContainerEdits, Hook, Mount};

use crate::files::{DriverFile, DriverFiles, FileKind, Link};

/// Where the runtime, which applies the edits, finds the driver and the hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimePaths<'a> {
    /// The driver root on the host. It differs from the path of the [`DriverRoot`](nvml_session::DriverRoot) if that
    /// is a mount in a container.
    pub driver_root: &'a str,
    /// The program `nvidia-cdi-hook` on the host, an absolute path.
    pub hook: &'a str,
}

/// The name of the hook's program, its first argument.
const HOOK_NAME: &str = "nvidia-cdi-hook";

const FILE_OPTIONS: [&str; 5] = ["ro", "nosuid", "nodev", "rbind", "rprivate"];

/// Not `ro`: a client must be able to write to a socket.
const SOCKET_OPTIONS: [&str; 5] = ["nosuid", "nodev", "noexec", "rbind", "rprivate"];

/// Keeps NVIDIA's own runtime from adding its devices and files to the same container.
const VOID: &str = "NVIDIA_VISIBLE_DEVICES=void";

// === impl RuntimePaths ===

impl RuntimePaths<'_> {
    /// The hook that creates links to a GPU's nodes of graphics, `names` in `/dev/dri`, by which programs find them:
    /// `/dev/dri/by-path/pci-ADDRESS-card` to `cardN`, and `-render` to `renderDN`. `None` without nodes.
    pub fn by_path_hook<'n>(
        &self,
        address: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Option<Hook> {
        let links = names.into_iter().map(|name| {
            let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
            Link {
                path: format!(
                    "/dev/dri/by-path/pci-{address}-{}",
                    kind.trim_end_matches('D')
                ),
                target: format!("../{name}"),
            }
        });
        let options: Vec<String> = links.flat_map(|link| link.option()).collect();
        (!options.is_empty()).then(|| self.hook("create-symlinks", options))
    }

    fn hook(&self, command: &str, options: impl IntoIterator<Item = String>) -> Hook {
        let mut args = vec![HOOK_NAME.to_owned(), command.to_owned()];
        args.extend(options);
        Hook {
            hook_name: "createContainer".to_owned(),
            path: self.hook.to_owned(),
            args,
            ..Hook::default()
        }
    }
}

// === impl Link ===

impl Link {
    fn option(&self) -> [String; 2] {
        let value = format!("{}::{}", self.target, self.path);
        ["--link".to_owned(), value]
    }
}

// === impl DriverFiles ===

impl DriverFiles {
    /// The edits that give a container the files, the links and the loader's cache. Device nodes are not included.
    ///
    /// One hook, `nvidia-cdi-hook container`, does what has to be done inside the container's root. It is there even
    /// without links and folders, because it also turns off that the driver's programs change device nodes.
    pub fn container_edits(&self, runtime: &RuntimePaths<'_>) -> ContainerEdits {
        let mut env = vec![VOID.to_owned()];
        let libcuda_dir = self.libcuda_dir();
        env.extend(libcuda_dir.map(|dir| format!("NVIDIA_CTK_LIBCUDA_DIR={dir}")));
        let root = runtime.driver_root.trim_end_matches('/');
        ContainerEdits {
            env,
            mounts: self.files.iter().map(|file| file.mount(root)).collect(),
            hooks: vec![self.hook(runtime)],
            ..ContainerEdits::default()
        }
    }

    fn hook(&self, runtime: &RuntimePaths<'_>) -> Hook {
        let links = self.links.iter().flat_map(Link::option);
        let dirs = self.library_dirs.iter();
        let folders = dirs.flat_map(|dir| ["--folder".to_owned(), dir.clone()]);
        let version = ["--host-driver-version".to_owned(), self.version.to_string()];
        runtime.hook("container", links.chain(folders).chain(version))
    }
}

// === impl DriverFile ===

impl DriverFile {
    /// `root` has no `/` at its end.
    fn mount(&self, root: &str) -> Mount {
        let options = match self.kind {
            FileKind::Socket => SOCKET_OPTIONS,
            _ => FILE_OPTIONS,
        };
        Mount {
            host_path: format!("{root}{}", self.host_path),
            container_path: self.container_path.clone(),
            options: options.map(str::to_owned).to_vec(),
            ..Mount::default()
        }
    }
}
