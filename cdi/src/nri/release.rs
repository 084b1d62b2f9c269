//! The NRI release of a runtime.

use std::fmt;

use nri_plugin::Runtime;

/// What a runtime's NRI can express, as the oldest release that can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NriRelease {
    /// containerd 1.7, 2.0, 2.1; CRI-O that does not report its NRI version.
    Nri0_3,
    /// Rules of the device cgroup without a node. containerd 2.2.0.
    Nri0_10,
    /// Network devices, Intel RDT, and the container's user. containerd 2.2.1.
    Nri0_11,
}

// === impl NriRelease ===

impl NriRelease {
    /// The release of a runtime, from the versions that it reports; the oldest if they are unknown.
    pub fn of(runtime: &Runtime) -> Self {
        Self::from_versions(&runtime.name, &runtime.version, &runtime.nri_version)
    }

    /// NRI reports its version since 0.12; a build without one still sets the field, for example to
    /// `(devel)`.
    fn from_versions(runtime: &str, version: &str, nri: &str) -> Self {
        if !nri.is_empty() {
            return match numbers(nri) {
                Some([0, 1..10, _]) => Self::Nri0_3,
                Some([0, 10, _]) => Self::Nri0_10,
                _ => Self::Nri0_11,
            };
        }
        match (runtime, numbers(version)) {
            ("containerd", Some([2, 2, 0])) => Self::Nri0_10,
            ("containerd", Some(version)) if version > [2, 2, 0] => Self::Nri0_11,
            _ => Self::Nri0_3,
        }
    }
}

impl fmt::Display for NriRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nri0_3 => "0.3",
            Self::Nri0_10 => "0.10",
            Self::Nri0_11 => "0.11",
        })
    }
}

/// Major, minor and patch of `v2.3.0-rc.1`, `1.34.1`, `0.12`.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let version = version.trim_start_matches('v');
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next()?.parse().ok();
    Some([next()?, next()?, next().unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::NriRelease::{self, Nri0_3, Nri0_10, Nri0_11};

    #[test]
    fn a_release_follows_from_the_reported_versions() {
        for (runtime, version, nri, release) in [
            ("containerd", "v1.7.29", "", Nri0_3),
            ("containerd", "v2.1.5", "", Nri0_3),
            ("containerd", "v2.2.0", "", Nri0_10),
            ("containerd", "v2.2.1", "", Nri0_11),
            ("containerd", "2.10.0-rc.1", "", Nri0_11),
            ("containerd", "v2.3.0", "v0.12.0", Nri0_11),
            ("containerd", "dev", "(devel)", Nri0_11),
            ("containerd", "dev", "", Nri0_3),
            ("cri-o", "1.34.1", "", Nri0_3),
            ("cri-o", "1.36.0", "v0.12.4", Nri0_11),
            ("other", "v9", "v0.9.0", Nri0_3),
            ("other", "v9", "v0.10.3", Nri0_10),
        ] {
            let found = NriRelease::from_versions(runtime, version, nri);
            assert_eq!(found, release, "{runtime} {version} {nri}");
        }
    }
}
