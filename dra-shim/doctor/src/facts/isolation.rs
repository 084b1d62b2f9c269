//! Programs and settings that give containers channels without a claim, or revoke them.

use toml::{Table, Value};

use crate::host::Host;

/// The toolkit's configuration on the host, and where the GPU operator installs it.
const TOOLKIT_CONFIGS: [&str; 2] = [
    "/etc/nvidia-container-runtime/config.toml",
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
];
/// The toolkit's programs: without a configuration, the defaults apply.
const TOOLKITS: [&str; 2] = [
    "/usr/bin/nvidia-container-runtime",
    "/usr/local/nvidia/toolkit/nvidia-container-runtime",
];
/// Makes the toolkit ignore `NVIDIA_IMEX_CHANNELS`; off by default.
pub(crate) const IGNORE_REQUESTS: &str = "ignore-imex-channel-requests";

/// Directories of `libsystemd-shared-VERSION.so`.
const SYSTEMD_DIRS: [&str; 3] = ["/usr/lib/systemd", "/lib/systemd", "/usr/lib64/systemd"];

/// Programs and directories of Kata Containers.
const KATA: [&str; 3] = [
    "/opt/kata",
    "/usr/bin/kata-runtime",
    "/usr/bin/containerd-shim-kata-v2",
];

/// The ranges of user ids that pods with `hostUsers: false` need.
pub(crate) const SUBORDINATE_IDS: &str = "/etc/subuid";

/// Programs and settings of a host that bypass or undermine claims.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IsolationFacts {
    /// The NVIDIA container toolkit; `None` if it is not installed.
    pub toolkit: Option<Toolkit>,
    /// systemd's version; `None` if its library is not found.
    pub systemd: Option<u32>,
    /// kubelet's line of `/etc/subuid`; `None` if it has no range of user ids.
    pub kubelet_user_ids: Option<String>,
    /// The program or directory that shows that Kata Containers is installed.
    pub kata: Option<String>,
}

/// The NVIDIA container toolkit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolkit {
    /// Its configuration; without one, its program.
    pub path: String,
    /// `features.ignore-imex-channel-requests`, `None` if not set; or why it is unknown.
    pub ignores_requests: Result<Option<bool>, String>,
}

// === impl IsolationFacts ===

impl IsolationFacts {
    pub(crate) fn read(host: &Host) -> Self {
        Self {
            toolkit: Toolkit::read(host),
            systemd: systemd_version(host),
            kubelet_user_ids: kubelet_user_ids(host),
            kata: host.first_existing(&KATA).map(str::to_owned),
        }
    }
}

// === impl Toolkit ===

impl Toolkit {
    fn read(host: &Host) -> Option<Self> {
        let config = host.first_existing(&TOOLKIT_CONFIGS);
        let path = config.or_else(|| host.first_existing(&TOOLKITS))?;
        Some(Self {
            path: path.to_owned(),
            ignores_requests: config.map_or(Ok(None), |config| ignores_requests(host, config)),
        })
    }
}

/// The toolkit's setting. The error continues a sentence that begins with "it".
fn ignores_requests(host: &Host, config: &str) -> Result<Option<bool>, String> {
    let text = host.read_text(config);
    let text = text.map_err(|error| format!("cannot be read: {error}"))?;
    let table = text.unwrap_or_default().parse::<Table>();
    // The error's text would quote the file.
    let table = table.map_err(|_| "is not valid TOML".to_owned())?;
    let features = table.get("features").and_then(Value::as_table);
    Ok(features.and_then(|it| it.get(IGNORE_REQUESTS).and_then(Value::as_bool)))
}

/// The version in `libsystemd-shared-252.so` or `libsystemd-shared-239-78.el8.so`.
fn systemd_version(host: &Host) -> Option<u32> {
    let names = SYSTEMD_DIRS.iter().flat_map(|dir| host.list(dir));
    let versions = names.filter_map(|name| {
        let rest = name.strip_prefix("libsystemd-shared-")?;
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        rest.get(..end)?.parse().ok()
    });
    versions.max()
}

fn kubelet_user_ids(host: &Host) -> Option<String> {
    let text = host.text_if_readable(SUBORDINATE_IDS)?;
    let line = text.lines().find(|line| line.starts_with("kubelet:"))?;
    Some(line.to_owned())
}
