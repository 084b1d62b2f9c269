//! What differs between the releases of containerd in how they read their
//! configuration.

use crate::runtime_release;

/// A release of containerd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Release([u32; 3]);

/// Releases that read their configuration alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// 1.x: one table for CRI, by its name in the last version that a file has. A
    /// later file's table replaces an earlier one as a whole. CDI is off by default.
    /// `strict` since 1.7.17: a version above 2 is refused.
    V1 {
        /// Whether a version above 2 is refused.
        strict: bool,
    },
    /// 2.0 to 2.2: tables are merged key by key, and what is left of an older version
    /// is migrated once, after all files, if the last file's version is older than 3.
    V2_0,
    /// 2.3: each file is migrated on its own, if it is older than version 4, and then
    /// merged. `strict` before 2.3.5: no file may be newer than the first.
    V2_3 {
        /// Whether a file is refused that is of a newer version than the first.
        strict: bool,
    },
    /// From 2.4 on: as 2.3, and CDI cannot be turned off.
    V2_4,
}

// === impl Release ===

impl Release {
    /// `2.1.3`.
    pub(super) fn parse(version: &str) -> Option<Self> {
        runtime_release::release(version).map(Self)
    }

    /// Fixed in 1.7.16 (containerd/containerd#9834). systemd starts services in `/`.
    pub(super) fn globs_from_working_directory(self) -> bool {
        self < Self([1, 7, 16])
    }

    pub(super) fn rules(self) -> Rules {
        let Self([major, minor, _]) = self;
        match (major, minor) {
            // containerd/containerd#10165
            (..2, _) => Rules::V1 {
                strict: self >= Self([1, 7, 17]),
            },
            (2, ..3) => Rules::V2_0,
            // containerd/containerd#12891, taken back by #13939
            (2, 3) => Rules::V2_3 {
                strict: self < Self([2, 3, 5]),
            },
            _ => Rules::V2_4,
        }
    }
}

// === impl Rules ===

impl Rules {
    /// Those that may hold if the release is not known. What 2.4 does differently
    /// would hide a cause on every other.
    pub(super) const POSSIBLE: [Self; 3] = [
        Self::V1 { strict: true },
        Self::V2_0,
        Self::V2_3 { strict: false },
    ];

    /// The newest version of a file that is read.
    pub(super) fn newest_version(self) -> i64 {
        match self {
            Self::V1 { strict: true } => 2,
            Self::V1 { strict: false } => i64::MAX,
            Self::V2_0 => 3,
            Self::V2_3 { .. } | Self::V2_4 => 4,
        }
    }

    /// `DefaultConfig` of `pkg/cri/config/config_unix.go` (1.7) and
    /// `internal/cri/config/config_unix.go` (2.x).
    pub(super) fn cdi_by_default(self) -> bool {
        !matches!(self, Self::V1 { .. })
    }
}
