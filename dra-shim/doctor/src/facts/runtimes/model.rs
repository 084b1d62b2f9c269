//! A container runtime as it is configured.

/// A container runtime that is installed on a host, or runs on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Which runtime it is.
    pub kind: RuntimeKind,
    /// `1.7.28`, without what a distribution adds; `None` if it is not known.
    pub version: Option<String>,
    /// Whether it resolves CDI devices.
    pub cdi: CdiSupport,
    /// The directories of CDI specs that its configuration names; `None` if it
    /// names none, and the default ones apply.
    pub spec_dirs: Option<Vec<String>>,
    /// Its configuration, if it has one: of several files, the one that decides
    /// what a finding is about.
    pub config: Option<String>,
    /// Why its configuration cannot be used. May quote it.
    pub config_error: Option<String>,
    /// Whether it does not start with its configuration.
    pub cannot_start: bool,
    /// Whether kubelet runs pods with it.
    pub runs_pods: bool,
    /// What its configuration has for containers that name no handler, if it names a
    /// program, or a handler that there is not.
    pub default_handler: Option<DefaultHandler>,
    /// What more is known of containerd's configuration; of others, nothing.
    pub containerd: ContainerdFacts,
}

/// What a runtime starts a container with that does not name a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultHandler {
    /// A program.
    Program {
        /// The handler's name, `nvidia`.
        name: String,
        /// Its program, as it is configured: a path, or a name that is looked up.
        program: String,
        /// The file that names the program.
        file: String,
        /// The setting in that file, for people.
        setting: String,
        /// Whether the program is there; `None` if that is not known.
        exists: Option<bool>,
    },
    /// A handler that the configuration does not define, nor the runtime itself.
    Undefined {
        /// The handler's name.
        name: String,
        /// The file that makes it the default.
        file: String,
    },
}

/// What a finding about containerd's configuration has to name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerdFacts {
    /// Where the setting belongs that a finding is about: `enable_cdi` where CDI is
    /// not on, else `cdi_spec_dirs`.
    pub place: Option<SettingPlace>,
    /// Where `enable_cdi = true` stands and does not count.
    pub in_vain: Option<SettingPlace>,
    /// What keeps it from serving kubelet.
    pub disabled: Option<DisabledCri>,
    /// The systemd unit that starts it, without `.service`; of two, if either may,
    /// both. `None` if that is not known.
    pub service: Option<String>,
}

/// Where a setting of containerd's CRI plugin is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingPlace {
    /// The file to edit.
    pub file: String,
    /// The plugin whose table in the file has the setting.
    pub plugin: &'static str,
    /// What the file is to containerd.
    pub source: Source,
}

/// What a file is to containerd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It reads the file.
    Itself,
    /// It would read the file, which does not exist.
    Absent,
    /// It reads every file in that directory; this one may not exist.
    DropIn,
    /// Its configuration is made from it at each start.
    Template {
        /// By this program.
        of: &'static str,
        /// Without it, the program has a template of its own.
        exists: bool,
    },
}

/// A name in `disabled_plugins` without which containerd does not serve kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisabledCri {
    /// The file.
    pub file: String,
    /// The name's line in it, from 1.
    pub line: usize,
    /// The name.
    pub name: String,
}

/// The container runtimes that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// containerd, also that of k3s and RKE2.
    Containerd,
    /// CRI-O.
    CriO,
    /// Docker Engine.
    Docker,
    /// podman.
    Podman,
}

/// Whether a runtime resolves CDI devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CdiSupport {
    /// It does.
    On,
    /// It does not, by configuration or by default.
    Off,
    /// Its version decides, and is not known.
    Unknown,
}

// === impl Runtime ===

impl Runtime {
    /// Name and, if it is known, version.
    pub fn label(&self) -> String {
        let name = self.kind.as_str();
        match &self.version {
            Some(version) => format!("{name} {version}"),
            None => name.to_owned(),
        }
    }

    /// With the file in which its fixes are to be made, if it is known.
    pub(crate) fn subject(&self) -> String {
        match &self.config {
            Some(config) => format!("{} ({config})", self.label()),
            None => self.label(),
        }
    }

    /// The first two numbers of its version, if that is known.
    pub fn major_minor(&self) -> Option<(u32, u32)> {
        major_minor(self.version.as_deref()?)
    }
}

/// The first two numbers of a version.
pub(crate) fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

// === impl RuntimeKind ===

impl RuntimeKind {
    /// Its usual name, `cri-o`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}
