//! Configurations, and what each line of releases makes of them.

use std::fs;

use tempfile::TempDir;

use crate::facts::runtimes::containerd::release::Rules;

/// What each line of releases comes to, 1.7, 2.0 to 2.2, 2.3.0 to 2.3.4, 2.3.5 and
/// later, 2.4: `on` or `off`, the directories if they are not the default ones,
/// `no-cri` if it does not serve kubelet; or `refused`.
type Outcomes = [&'static str; 5];

/// A configuration.
pub(super) struct Tree {
    pub(super) about: &'static str,
    /// `main.toml`
    main: &'static str,
    /// What is beside it. `ROOT` is their directory.
    others: &'static [File],
    outcomes: Outcomes,
}

/// Name and text.
type File = (&'static str, &'static str);

const fn one(about: &'static str, main: &'static str, outcomes: Outcomes) -> Tree {
    several(about, main, &[], outcomes)
}

const fn several(
    about: &'static str,
    main: &'static str,
    others: &'static [File],
    outcomes: Outcomes,
) -> Tree {
    Tree {
        about,
        main,
        others,
        outcomes,
    }
}

pub(super) const IMPORTS_ABSENT: &str =
    "an import that does not exist, which `config dump` of 2.x overlooks";

/// What to look for where: in 1.7 (1.7.35) `services/server/config/config.go`; in 2.x
/// (2.0.14, 2.1.9, 2.2.9, 2.3.3, 2.3.7, 2.4.2) `cmd/containerd/server/config/config.go`, `New` of
/// `cmd/containerd/server/server.go`, `configMigration` and `migrateConfig` of
/// `plugins/cri/runtime/plugin.go`. The names of functions stand beside the trees.
pub(super) const TREES: &[Tree] = &[
    // `DefaultConfig` of pkg/cri/config/config_unix.go, `DefaultRuntimeConfig` of
    // internal/cri/config/config_unix.go; 2.4 has no `EnableCDI`.
    one("an empty file", "", ["off", "on", "on", "on", "on"]),
    one(
        "on in version 2",
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n",
        ["on", "on", "on", "on", "on"],
    ),
    // `configMigration`
    one(
        "off in version 2",
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\ncdi_spec_dirs = ['/a']\n",
        ["off /a", "off /a", "off /a", "off /a", "on /a"],
    ),
    // `Decode`
    one(
        "the table of 2.x in version 2",
        "version = 2\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\ncdi_spec_dirs = ['/a']\n",
        ["off", "on /a", "on /a", "on /a", "on /a"],
    ),
    // `migrateConfig`
    one(
        "both tables in version 2",
        "version = 2\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/a']\n",
        ["on /a", "off /a", "off /a", "off /a", "on /a"],
    ),
    // `ValidateV2`
    one(
        "off in version 3",
        "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n",
        ["refused", "off", "off", "off", "on"],
    ),
    // `configMigration`: version 3 is not older than 2.2's, and older than 2.3's
    one(
        "the table of 1.x in version 3",
        "version = 3\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\ncdi_spec_dirs = ['/a']\n",
        ["refused", "on", "off /a", "off /a", "on /a"],
    ),
    one(
        "both tables in version 3",
        "version = 3\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\n",
        ["refused", "on", "on", "on", "on"],
    ),
    // `ValidateVersion`
    one(
        "the table of 1.x in version 4",
        "version = 4\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/a']\n",
        ["refused", "refused", "on /a", "on /a", "on /a"],
    ),
    one(
        "a version to come",
        "version = 5\n",
        ["refused", "refused", "refused", "refused", "refused"],
    ),
    // `v1Migrate`: `LoadConfig` of 2.0 makes version 3 of it, and migrates no plugin
    one(
        "version 1",
        "[plugins.cri]\nenable_cdi = false\ncdi_spec_dirs = ['/a']\n",
        ["off /a", "on", "off /a", "off /a", "on /a"],
    ),
    one(
        "on in version 1",
        "version = 1\n[plugins.cri]\nenable_cdi = true\n",
        ["on", "on", "on", "on", "on"],
    ),
    one(
        "long names without a version",
        "[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/a']\n",
        ["off", "on", "on /a", "on /a", "on /a"],
    ),
    one(
        "short names in version 2",
        "version = 2\n[plugins.cri]\nenable_cdi = false\n",
        ["refused", "on", "on", "on", "on"],
    ),
    // `mergeConfig`
    several(
        "a later file that has the table, and not the setting",
        "version = 2\nimports = ['d/*.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/a']\n",
        &[(
            "d/1.toml",
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'nvidia'\n",
        )],
        ["off", "on /a", "on /a", "on /a", "on /a"],
    ),
    several(
        "each file sets something else",
        "version = 2\nimports = ['d/*.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/a', '/b']\n",
        &[
            (
                "d/2.toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\ncdi_spec_dirs = ['/c']\n",
            ),
            (
                "d/1.toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n",
            ),
        ],
        ["off /c", "off /c", "off /c", "off /c", "on /c"],
    ),
    several(
        "a later file without directories",
        "version = 2\nimports = ['d.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/a']\n",
        &[(
            "d.toml",
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = []\n",
        )],
        ["on none", "on none", "on none", "on none", "on none"],
    ),
    // `LoadConfig`
    several(
        "imports of imports come after all of their importers",
        "version = 2\nimports = ['a.toml', 'b.toml']\n",
        &[
            ("a.toml", "version = 2\nimports = ['sub/c.toml']\n"),
            (
                "b.toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/b']\n",
            ),
            (
                "sub/c.toml",
                "version = 2\nimports = ['../main.toml', 'c.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/c']\n",
            ),
        ],
        ["on /c", "on /c", "on /c", "on /c", "on /c"],
    ),
    // `resolveImports`
    several(
        "patterns in directories, and of every form",
        "version = 2\nimports = ['ROOT/*.d/[0-9]?-*.toml']\n",
        &[
            (
                "a.d/10-x.toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n",
            ),
            (
                "a.d/x0-x.toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\ncdi_spec_dirs = ['/wrong']\n",
            ),
            (
                "b.d/05-x.toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/b']\n",
            ),
        ],
        ["on /b", "on /b", "on /b", "on /b", "on /b"],
    ),
    several(
        "without a star it is no pattern",
        "version = 2\nimports = ['[0-9].toml', 'none/*.toml']\n",
        &[
            (
                "1.toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n",
            ),
            (
                "[0-9].toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n",
            ),
        ],
        ["on", "on", "on", "on", "on"],
    ),
    several(
        "a pattern that is none",
        "version = 2\nimports = ['d/*[.toml']\n",
        &[("d/1.toml", "version = 2\n")],
        ["refused", "refused", "refused", "refused", "refused"],
    ),
    one(
        IMPORTS_ABSENT,
        "version = 2\nimports = ['none.toml']\n",
        ["refused", "refused", "refused", "refused", "refused"],
    ),
    // `LoadConfig` of 2.0: the last version decides about all files; of 2.3: each its own
    several(
        "version 3 imported by version 2",
        "version = 2\nimports = ['d.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n",
        &[(
            "d.toml",
            "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/d']\n",
        )],
        ["refused", "on /d", "refused", "off /d", "on /d"],
    ),
    several(
        "version 2 imported by version 3",
        "version = 3\nimports = ['d.toml']\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/a']\n",
        &[(
            "d.toml",
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\ncdi_spec_dirs = ['/d']\n",
        )],
        // 1.7: the last version is 2, and the other table has no meaning to it.
        ["off /d", "off /a", "off /d", "off /d", "on /d"],
    ),
    several(
        "version 1 imported by version 2",
        "version = 2\nimports = ['d.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n",
        &[(
            "d.toml",
            "version = 1\n[plugins.cri]\nenable_cdi = true\ncdi_spec_dirs = ['/d']\n",
        )],
        ["on /d", "on /d", "on /d", "on /d", "on /d"],
    ),
    several(
        "no version, imported by version 2",
        "version = 2\nimports = ['d.toml']\n",
        &[(
            "d.toml",
            "[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/d']\n",
        )],
        ["on /d", "on /d", "on /d", "on /d", "on /d"],
    ),
    several(
        "no version, imported by version 3",
        "version = 3\nimports = ['d.toml']\n",
        &[(
            "d.toml",
            "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n",
        )],
        ["refused", "off", "off", "off", "on"],
    ),
    // `V1DisabledFilter`, `V2DisabledFilter`, `v1MigratePluginName`
    one(
        "what Docker's package writes",
        "disabled_plugins = ['cri']\n",
        [
            "off no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
        ],
    ),
    one(
        "disabled by its long name in version 1",
        "disabled_plugins = ['io.containerd.grpc.v1.cri']\n",
        ["off", "on no-cri", "on no-cri", "on no-cri", "on no-cri"],
    ),
    several(
        "disabled by its long name in version 2, and a later file that disables nothing",
        "version = 2\nimports = ['d.toml']\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n",
        &[("d.toml", "version = 2\ndisabled_plugins = []\n")],
        [
            "off no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
        ],
    ),
    several(
        "what is disabled by any file",
        "version = 2\nimports = ['d.toml']\ndisabled_plugins = ['io.containerd.snapshotter.v1.zfs']\n",
        &[(
            "d.toml",
            "version = 2\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n",
        )],
        [
            "off no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
        ],
    ),
    // `ValidateV2`, `ValidateVersion`
    one(
        "disabled by its short name in version 2",
        "version = 2\ndisabled_plugins = ['cri']\n",
        ["refused", "refused", "refused", "refused", "refused"],
    ),
    one(
        "what only 2.x needs is disabled",
        "version = 2\ndisabled_plugins = ['io.containerd.cri.v1.images']\n",
        ["off", "on no-cri", "on no-cri", "on no-cri", "on no-cri"],
    ),
    // `Decode`
    one(
        "a text that means true",
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = 'true'\n",
        ["refused", "refused", "refused", "refused", "on"],
    ),
    one(
        "a list of numbers",
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\ncdi_spec_dirs = [1]\n",
        ["refused", "refused", "refused", "refused", "refused"],
    ),
];

// === impl Tree ===

impl Tree {
    /// Whose outcomes are told elsewhere.
    pub(super) const fn new(main: &'static str, others: &'static [File]) -> Self {
        several("", main, others, [""; 5])
    }

    pub(super) fn write(&self) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        let main = ("main.toml", self.main);
        for (name, text) in self.others.iter().chain([&main]) {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let root = dir.path().to_str().unwrap();
            fs::write(path, text.replace("ROOT", root)).unwrap();
        }
        dir
    }

    pub(super) fn expected(&self, rules: Rules) -> &'static str {
        let [of_1_7, of_2_0, of_2_3_0, of_2_3_5, of_2_4] = self.outcomes;
        match rules {
            Rules::V1 { .. } => of_1_7,
            Rules::V2_0 => of_2_0,
            Rules::V2_3 { strict: true } => of_2_3_0,
            Rules::V2_3 { strict: false } => of_2_3_5,
            Rules::V2_4 => of_2_4,
        }
    }
}
