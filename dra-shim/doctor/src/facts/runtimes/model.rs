//! The container runtimes of a host, as data.

/// A container runtime that is installed or running on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Which runtime it is.
    pub kind: RuntimeKind,
    /// `1.7.28`, without a distribution's suffix; `None` if unknown.
    pub version: Option<String>,
    /// The file that it was started with, or that it reads by default; `None` if there is
    /// none, or it is unknown.
    pub config: Option<String>,
}

/// The known container runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// containerd, including that of k3s, RKE2, k0s and `MicroK8s`.
    Containerd,
    /// CRI-O.
    CriO,
    /// Docker behind cri-dockerd.
    CriDockerd,
    /// Another runtime that serves kubelet.
    Other,
    /// Docker Engine by itself, which does not serve kubelet.
    Docker,
    /// podman, which does not serve kubelet.
    Podman,
}

/// The runtime that kubelet runs pods with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletRuntime {
    /// The runtime.
    pub runtime: Runtime,
    /// Its socket for kubelet.
    pub socket: String,
    /// Its settings, as far as known.
    pub settings: Settings,
    /// Where CDI settings belong; `None` for a runtime without such settings.
    pub edit: Option<Edit>,
}

/// A runtime's settings and their source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settings {
    /// The runtime's answer.
    FromRuntime(CdiSettings),
    /// The explicit settings in its files, because it cannot be queried from here.
    ConfigFiles(CdiSettings),
    /// It does not serve kubelet, according to its answer or to this line of a file.
    WithoutCri(Option<DisabledCri>),
    /// Querying it at kubelet's socket failed, for this reason.
    NoAnswer(String),
    /// One of its files is malformed, for this reason, which may quote the file.
    Malformed(String),
}

/// How a runtime treats CDI devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CdiSettings {
    /// Whether it resolves them.
    pub support: CdiSupport,
    /// The directories from which it reads specs; `None` if they are unknown, or the
    /// defaults apply.
    pub spec_dirs: Option<Vec<String>>,
    /// The handler of containers that name none, if it has a program of its own.
    pub default_handler: Option<DefaultHandler>,
}

/// Whether a runtime resolves CDI devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CdiSupport {
    /// It does.
    On,
    /// Its configuration disables CDI, or does not enable it.
    Off,
    /// It has no CDI support for kubelet at all.
    Absent,
    /// Not checked, for this reason.
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

/// Where to change a setting so that the change survives the next start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file.
    pub file: String,
    /// The table in it, `plugins."io.containerd.cri.v1.runtime"`.
    pub table: String,
    /// A note on the file, for people: that it must be created, or what generates the
    /// configuration from it. May be empty.
    pub note: String,
    /// A CDI setting in the configuration that has no effect: why, and how to fix the file.
    pub misplaced: Option<Misplaced>,
    /// Whether the file already has the setting, but the runtime runs without it.
    pub is_set: bool,
    /// What makes it effective, as the end of a sentence: `, and restart containerd`.
    pub apply: String,
}

/// A setting in a table that the runtime ignores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misplaced {
    /// The problem.
    pub why: String,
    /// The fix, in the file of the [`Edit`].
    pub fix: String,
}

// === impl Runtime ===

impl Runtime {
    /// Name and, if known, version.
    pub fn label(&self) -> String {
        let name = self.kind.as_str();
        match &self.version {
            Some(version) => format!("{name} {version}"),
            None => name.to_owned(),
        }
    }

    /// The label and, if known, the configuration.
    pub(crate) fn subject(&self) -> String {
        match &self.config {
            Some(config) => format!("{} ({config})", self.label()),
            None => self.label(),
        }
    }

    /// The first two numbers of its version, if known.
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
    /// How it treats CDI devices, if known.
    pub fn cdi(&self) -> Option<&CdiSettings> {
        match &self.settings {
            Settings::FromRuntime(settings) | Settings::ConfigFiles(settings) => Some(settings),
            Settings::WithoutCri(_) | Settings::NoAnswer(_) | Settings::Malformed(_) => None,
        }
    }
}

// === impl CdiSettings ===

impl CdiSettings {
    /// Whether it certainly resolves no devices.
    pub(crate) fn has_no_cdi(&self) -> bool {
        matches!(self.support, CdiSupport::Off | CdiSupport::Absent)
    }
}
