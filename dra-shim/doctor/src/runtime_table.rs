//! The newest CDI version that releases of container runtimes load.
//!
//! The Go CDI library in the release decides. Its versions load: 0.3.2: 0.3.0;
//! 0.4.0: 0.4.0; 0.5.2 to 0.5.4: 0.5.0; 0.6.x: 0.6.0; 0.7.2: 0.7.0; 0.8.0 and 0.8.1:
//! 0.8.0; 1.0.0 and 1.0.1: 1.0.0; 1.1.0: 1.1.0 (the versions in its `pkg/cdi/spec.go`,
//! later in `version.go`).
//!
//! The library's version is in the release's `go.mod`, for docker in its `vendor.mod`. A row
//! with another source says so.

use imex_cdi::SpecVersion;

/// The newest CDI version that a runtime loads from this release on, until the
/// next row. Releases between rows may load more, never less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) runtime: &'static str,
    pub(crate) release: [u32; 3],
    pub(crate) newest: SpecVersion,
}

const fn row(runtime: &'static str, release: [u32; 3], newest: SpecVersion) -> Row {
    Row {
        runtime,
        release,
        newest,
    }
}

/// Ascending by runtime and release.
pub(crate) const ROWS: [Row; 34] = [
    row("containerd", [1, 7, 0], SpecVersion::V0_5_0),
    row("containerd", [1, 7, 13], SpecVersion::V0_6_0),
    row("containerd", [1, 7, 20], SpecVersion::V0_7_0),
    row("containerd", [1, 7, 28], SpecVersion::V0_8_0),
    row("containerd", [2, 0, 0], SpecVersion::V0_8_0),
    row("containerd", [2, 0, 5], SpecVersion::V1_0_0),
    row("containerd", [2, 1, 0], SpecVersion::V1_0_0),
    row("containerd", [2, 2, 0], SpecVersion::V1_0_0),
    row("containerd", [2, 2, 1], SpecVersion::V1_1_0),
    row("containerd", [2, 3, 0], SpecVersion::V1_1_0),
    // 0.3.2. The go.mod of 1.23.0 and 1.23.1 does not have the library.
    row("cri-o", [1, 24, 0], SpecVersion::V0_3_0),
    // 0.4.0: go.mod of the main branch in July 2022, with containerd 1.6.6.
    row("cri-o", [1, 25, 0], SpecVersion::V0_4_0),
    // 0.5.4: go.mod of 1.27.1.
    row("cri-o", [1, 27, 1], SpecVersion::V0_5_0),
    // 0.6.0: go.mod of the main branch after 1.28.0, since it requires Go 1.21.
    row("cri-o", [1, 29, 0], SpecVersion::V0_6_0),
    // 0.7.2: pull request 7971 of April 2024, for the release after 1.30.
    row("cri-o", [1, 31, 0], SpecVersion::V0_7_0),
    // 0.8.1: pull request 9025 of the branch release-1.32, after 1.32.2.
    row("cri-o", [1, 32, 3], SpecVersion::V0_8_0),
    // 1.0.1.
    row("cri-o", [1, 34, 0], SpecVersion::V1_0_0),
    // 1.1.0: go.mod of 1.35.2; pull request 9650 of December 2025.
    row("cri-o", [1, 35, 2], SpecVersion::V1_1_0),
    // 0.6.2, as 25.0.6.
    row("docker", [25, 0, 0], SpecVersion::V0_6_0),
    // 0.7.2, as 27.2.0.
    row("docker", [26, 1, 3], SpecVersion::V0_7_0),
    // 0.8.0, as 27.5.0; pull request 48886 of moby.
    row("docker", [27, 4, 1], SpecVersion::V0_8_0),
    // 0.8.1, as 28.0.4.
    row("docker", [28, 0, 1], SpecVersion::V0_8_0),
    // 1.0.1, as 28.5.0; pull request 49738 of moby.
    row("docker", [28, 2, 2], SpecVersion::V1_0_0),
    row("podman", [4, 1, 1], SpecVersion::V0_4_0),
    row("podman", [4, 3, 1], SpecVersion::V0_5_0),
    row("podman", [4, 4, 0], SpecVersion::V0_5_0),
    row("podman", [4, 6, 2], SpecVersion::V0_5_0),
    row("podman", [4, 7, 0], SpecVersion::V0_6_0),
    row("podman", [4, 9, 3], SpecVersion::V0_6_0),
    row("podman", [5, 0, 0], SpecVersion::V0_6_0),
    row("podman", [5, 1, 0], SpecVersion::V0_7_0),
    row("podman", [5, 2, 0], SpecVersion::V0_8_0),
    row("podman", [5, 5, 0], SpecVersion::V1_0_0),
    row("podman", [5, 7, 0], SpecVersion::V1_0_0),
];

// === impl Row ===

impl Row {
    /// The release, as users name it.
    pub(crate) fn name(self) -> String {
        let [major, minor, patch] = self.release;
        format!("{}-{major}.{minor}.{patch}", self.runtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ascends_and_no_runtime_ever_loads_less() {
        for (row, next) in ROWS.iter().zip(ROWS.iter().skip(1)) {
            if row.runtime == next.runtime {
                assert!(row.release < next.release, "{}", next.name());
                assert!(row.newest <= next.newest, "{}", next.name());
            } else {
                assert!(row.runtime < next.runtime);
            }
        }
    }
}
