//! The parts of a container that may request channels.

/// A container's config, borrowed from its source.
#[derive(Debug, Clone, Default)]
pub struct ContainerView<'a> {
    /// Its name in the pod, for annotations that are for one container.
    pub name: &'a str,
    /// `NAME=value`.
    pub env: Vec<&'a str>,
    /// Its annotations and its pod's, as key and value.
    pub annotations: Vec<(&'a str, &'a str)>,
    /// The CDI devices that it requests by name. One is a channel if `resolve` of
    /// [`requested_channels`](crate::requested_channels()) says so, if its kind is that of [claims](crate::Kind::compute_domain_claim),
    /// if its class is `imex-channel`, or if it is one of `management.nvidia.com/gpu`,
    /// which NVIDIA gives every channel of the host.
    pub cdi_names: Vec<&'a str>,
    /// Its device nodes.
    pub devices: Vec<DeviceView<'a>>,
    /// What its device cgroup allows. Rules that deny are left out.
    pub rules: Vec<RuleView<'a>>,
    /// Its mounts.
    pub mounts: Vec<MountView<'a>>,
}

/// A device node of a container.
#[derive(Debug, Clone, Copy)]
pub struct DeviceView<'a> {
    /// Path in the container.
    pub path: &'a str,
    /// `c`, `u`, `b` or `p`.
    pub device_type: &'a str,
    /// Device major.
    pub major: i64,
    /// Device minor.
    pub minor: i64,
}

/// A rule of the device cgroup that allows something.
#[derive(Debug, Clone, Copy)]
pub struct RuleView<'a> {
    /// `c` or `b`; `a` or empty for both.
    pub device_type: &'a str,
    /// Device major; `None` or less than 0 for all.
    pub major: Option<i64>,
    /// Device minor; `None` or less than 0 for all.
    pub minor: Option<i64>,
    /// Letters of `rwm`; without `r` and `w` no device can be opened.
    pub access: &'a str,
}

/// A mount of a container.
#[derive(Debug, Clone, Copy)]
pub struct MountView<'a> {
    /// Path on the host.
    pub source: &'a str,
    /// Path in the container.
    pub destination: &'a str,
}
