//! The files of a driver as CDI edits.

use imex_cdi::{ContainerEdits, Hook, Mount};

use crate::files::{DriverFile, DriverFiles, FileKind};

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
            hooks: vec![self.hook(runtime.hook)],
            ..ContainerEdits::default()
        }
    }

    fn hook(&self, path: &str) -> Hook {
        let mut args = vec![HOOK_NAME.to_owned(), "container".to_owned()];
        let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
        for link in &self.links {
            option("--link", format!("{}::{}", link.target, link.path));
        }
        for dir in &self.library_dirs {
            option("--folder", dir.clone());
        }
        option("--host-driver-version", self.version.to_string());
        Hook {
            hook_name: "createContainer".to_owned(),
            path: path.to_owned(),
            args,
            ..Hook::default()
        }
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
