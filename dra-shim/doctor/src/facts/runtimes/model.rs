//! The container runtimes of a host, as data.

/// A container runtime that is installed on a host, or runs on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Which runtime it is.
    pub kind: RuntimeKind,
    /// `1.7.28`, without what a distribution adds; `None` if it is not known.
    pub version: Option<String>,
    /// The file that it was started with, or that it reads by default; `None` if it has
    /// none, or none is known.
    pub config: Option<String>,
}

/// The container runtimes that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// containerd, also that of k3s, RKE2, k0s and `MicroK8s`.
    Containerd,
    /// CRI-O.
    CriO,
    /// Docker behind cri-dockerd.
    CriDockerd,
    /// Another that serves kubelet.
    Other,
    /// Docker Engine by itself, which does not serve kubelet.
    Docker,
    /// podman, which does not serve kubelet.
    Podman,
}

/// The runtime that kubelet runs pods with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletRuntime {
    /// Which one it is.
    pub runtime: Runtime,
    /// The socket at which kubelet asks it.
    pub socket: String,
    /// What is known of its settings.
    pub settings: Settings,
    /// Where settings of CDI belong; `None` of a runtime that has none.
    pub edit: Option<Edit>,
}

/// What is known of a runtime's settings, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settings {
    /// The runtime answered.
    Asked(CdiSettings),
    /// It cannot be asked from here; its files say so in so many words.
    Written(CdiSettings),
    /// It does not serve kubelet: it answered so, or has the line in a file.
    WithoutCri(Option<DisabledCri>),
    /// kubelet asks at its socket, and there is no answer: why.
    NoAnswer(String),
    /// A file of its is not what it reads: why. May quote it.
    Malformed(String),
}

/// How a runtime treats CDI devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CdiSettings {
    /// Whether it resolves them.
    pub support: CdiSupport,
    /// The directories from which it reads specs; `None` if they are not known, or the
    /// default ones apply.
    pub spec_dirs: Option<Vec<String>>,
    /// What containers that name no handler are started with, if that is a program of its
    /// own.
    pub default_handler: Option<DefaultHandler>,
}

/// Whether a runtime resolves CDI devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CdiSupport {
    /// It does.
    On,
    /// Its configuration turns it off, or does not turn it on.
    Off,
    /// It has no CDI for kubelet at all.
    Absent,
    /// Not judged: why.
    Unknown(String),
}

/// The program of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultHandler {
    /// The handler's name, `nvidia`.
    pub name: String,
    /// Its program's path.
    pub program: String,
    /// Whether the host has the program.
    pub exists: bool,
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

/// Where a setting belongs so that it survives the next start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file.
    pub file: String,
    /// The table in it, `plugins."io.containerd.cri.v1.runtime"`.
    pub table: String,
    /// What has to be known of the file, for people: that it is to be made, or who makes
    /// the configuration from it. May be empty.
    pub note: String,
    /// A setting of CDI that stands in the configuration and does not count: why, and what
    /// the file needs for it.
    pub misplaced: Option<Misplaced>,
    /// Whether the file has the setting already, and the runtime runs without it.
    pub is_set: bool,
    /// What makes it effective, as the end of a sentence: `, and restart containerd`.
    pub apply: String,
}

/// A setting that a reader of the file takes for one that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misplaced {
    /// What is wrong.
    pub why: String,
    /// What to do about it, in the file of the [`Edit`].
    pub fix: String,
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

    /// With its configuration, if it is known.
    pub(crate) fn subject(&self) -> String {
        match &self.config {
            Some(config) => format!("{} ({config})", self.label()),
            None => self.label(),
        }
    }

    /// The first two numbers of its version, if that is known.
    pub fn major_minor(&self) -> Option<(u32, u32)> {
        let mut numbers = self.version.as_deref()?.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

// === impl RuntimeKind ===

impl RuntimeKind {
    /// Its usual name, `cri-o`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::CriDockerd => "cri-dockerd",
            Self::Other => "kubelet's runtime",
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

// === impl KubeletRuntime ===

impl KubeletRuntime {
    /// What is known of how it treats CDI devices.
    pub fn cdi(&self) -> Option<&CdiSettings> {
        match &self.settings {
            Settings::Asked(settings) | Settings::Written(settings) => Some(settings),
            Settings::WithoutCri(_) | Settings::NoAnswer(_) | Settings::Malformed(_) => None,
        }
    }
}

// === impl CdiSettings ===

impl CdiSettings {
    /// Whether it surely resolves no device.
    pub(crate) fn is_without(&self) -> bool {
        matches!(self.support, CdiSupport::Off | CdiSupport::Absent)
    }
}
