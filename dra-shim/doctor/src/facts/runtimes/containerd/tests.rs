//! Configurations, and what each line of releases makes of them; and the same from
//! containerd itself.

mod itself;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::files::read_all;
use super::release::{Release, Rules};
use super::rules::{Settings, decide};
use super::*;
use crate::root::Root;

/// What each line of releases comes to, 1.7, 2.0 to 2.2, 2.3.0 to 2.3.4, 2.3.5 and
/// later, 2.4: `on` or `off`, the directories if they are not the default ones,
/// `no-cri` if it does not serve kubelet; or `refused`.
type Outcomes = [&'static str; 5];

/// A configuration, `main.toml` and what is beside it.
struct Tree {
    about: &'static str,
    files: &'static [(&'static str, &'static str)],
    outcomes: Outcomes,
}

const fn tree(
    about: &'static str,
    files: &'static [(&'static str, &'static str)],
    outcomes: Outcomes,
) -> Tree {
    Tree {
        about,
        files,
        outcomes,
    }
}

const IMPORTS_ABSENT: &str = "an import that does not exist, which `config dump` of 2.x overlooks";

/// What to look for where: in 1.7 (1.7.35) `services/server/config/config.go`; in 2.x
/// (2.0.14, 2.1.9, 2.2.9, 2.3.3, 2.3.7, 2.4.2) `cmd/containerd/server/config/config.go`, `New` of
/// `cmd/containerd/server/server.go`, `configMigration` and `migrateConfig` of
/// `plugins/cri/runtime/plugin.go`. The names of functions stand beside the trees.
const TREES: &[Tree] = &[
    // `DefaultConfig` of pkg/cri/config/config_unix.go, `DefaultRuntimeConfig` of
    // internal/cri/config/config_unix.go; 2.4 has no `EnableCDI`.
    tree(
        "an empty file",
        &[("main.toml", "")],
        ["off", "on", "on", "on", "on"],
    ),
    tree(
        "on in version 2",
        &[(
            "main.toml",
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n",
        )],
        ["on", "on", "on", "on", "on"],
    ),
    // `configMigration`
    tree(
        "off in version 2",
        &[(
            "main.toml",
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\ncdi_spec_dirs = ['/a']\n",
        )],
        ["off /a", "off /a", "off /a", "off /a", "on /a"],
    ),
    // `Decode`
    tree(
        "the table of 2.x in version 2",
        &[(
            "main.toml",
            "version = 2\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\ncdi_spec_dirs = ['/a']\n",
        )],
        ["off", "on /a", "on /a", "on /a", "on /a"],
    ),
    // `migrateConfig`
    tree(
        "both tables in version 2",
        &[(
            "main.toml",
            "version = 2\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/a']\n",
        )],
        ["on /a", "off /a", "off /a", "off /a", "on /a"],
    ),
    // `ValidateV2`
    tree(
        "off in version 3",
        &[(
            "main.toml",
            "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n",
        )],
        ["refused", "off", "off", "off", "on"],
    ),
    // `configMigration`: version 3 is not older than 2.2's, and older than 2.3's
    tree(
        "the table of 1.x in version 3",
        &[(
            "main.toml",
            "version = 3\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\ncdi_spec_dirs = ['/a']\n",
        )],
        ["refused", "on", "off /a", "off /a", "on /a"],
    ),
    tree(
        "both tables in version 3",
        &[(
            "main.toml",
            "version = 3\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\n",
        )],
        ["refused", "on", "on", "on", "on"],
    ),
    // `ValidateVersion`
    tree(
        "the table of 1.x in version 4",
        &[(
            "main.toml",
            "version = 4\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/a']\n",
        )],
        ["refused", "refused", "on /a", "on /a", "on /a"],
    ),
    tree(
        "a version to come",
        &[("main.toml", "version = 5\n")],
        ["refused", "refused", "refused", "refused", "refused"],
    ),
    // `v1Migrate`: `LoadConfig` of 2.0 makes version 3 of it, and migrates no plugin
    tree(
        "version 1",
        &[(
            "main.toml",
            "[plugins.cri]\nenable_cdi = false\ncdi_spec_dirs = ['/a']\n",
        )],
        ["off /a", "on", "off /a", "off /a", "on /a"],
    ),
    tree(
        "on in version 1",
        &[(
            "main.toml",
            "version = 1\n[plugins.cri]\nenable_cdi = true\n",
        )],
        ["on", "on", "on", "on", "on"],
    ),
    tree(
        "long names without a version",
        &[(
            "main.toml",
            "[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/a']\n",
        )],
        ["off", "on", "on /a", "on /a", "on /a"],
    ),
    tree(
        "short names in version 2",
        &[(
            "main.toml",
            "version = 2\n[plugins.cri]\nenable_cdi = false\n",
        )],
        ["refused", "on", "on", "on", "on"],
    ),
    // `mergeConfig`
    tree(
        "a later file that has the table, and not the setting",
        &[
            (
                "main.toml",
                "version = 2\nimports = ['d/*.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/a']\n",
            ),
            (
                "d/1.toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'nvidia'\n",
            ),
        ],
        ["off", "on /a", "on /a", "on /a", "on /a"],
    ),
    tree(
        "each file sets something else",
        &[
            (
                "main.toml",
                "version = 2\nimports = ['d/*.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/a', '/b']\n",
            ),
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
    tree(
        "a later file without directories",
        &[
            (
                "main.toml",
                "version = 2\nimports = ['d.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/a']\n",
            ),
            (
                "d.toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = []\n",
            ),
        ],
        ["on none", "on none", "on none", "on none", "on none"],
    ),
    // `LoadConfig`
    tree(
        "imports of imports come after all of their importers",
        &[
            ("main.toml", "version = 2\nimports = ['a.toml', 'b.toml']\n"),
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
    tree(
        "patterns in directories, and of every form",
        &[
            (
                "main.toml",
                "version = 2\nimports = ['ROOT/*.d/[0-9]?-*.toml']\n",
            ),
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
    tree(
        "without a star it is no pattern",
        &[
            (
                "main.toml",
                "version = 2\nimports = ['[0-9].toml', 'none/*.toml']\n",
            ),
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
    tree(
        "a pattern that is none",
        &[
            ("main.toml", "version = 2\nimports = ['d/*[.toml']\n"),
            ("d/1.toml", "version = 2\n"),
        ],
        ["refused", "refused", "refused", "refused", "refused"],
    ),
    tree(
        IMPORTS_ABSENT,
        &[("main.toml", "version = 2\nimports = ['none.toml']\n")],
        ["refused", "refused", "refused", "refused", "refused"],
    ),
    // `LoadConfig` of 2.0: the last version decides about all files; of 2.3: each its own
    tree(
        "version 3 imported by version 2",
        &[
            (
                "main.toml",
                "version = 2\nimports = ['d.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n",
            ),
            (
                "d.toml",
                "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/d']\n",
            ),
        ],
        ["refused", "on /d", "refused", "off /d", "on /d"],
    ),
    tree(
        "version 2 imported by version 3",
        &[
            (
                "main.toml",
                "version = 3\nimports = ['d.toml']\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/a']\n",
            ),
            (
                "d.toml",
                "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\ncdi_spec_dirs = ['/d']\n",
            ),
        ],
        // 1.7: the last version is 2, and the other table has no meaning to it.
        ["off /d", "off /a", "off /d", "off /d", "on /d"],
    ),
    tree(
        "version 1 imported by version 2",
        &[
            (
                "main.toml",
                "version = 2\nimports = ['d.toml']\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n",
            ),
            (
                "d.toml",
                "version = 1\n[plugins.cri]\nenable_cdi = true\ncdi_spec_dirs = ['/d']\n",
            ),
        ],
        ["on /d", "on /d", "on /d", "on /d", "on /d"],
    ),
    tree(
        "no version, imported by version 2",
        &[
            ("main.toml", "version = 2\nimports = ['d.toml']\n"),
            (
                "d.toml",
                "[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\ncdi_spec_dirs = ['/d']\n",
            ),
        ],
        ["on /d", "on /d", "on /d", "on /d", "on /d"],
    ),
    tree(
        "no version, imported by version 3",
        &[
            ("main.toml", "version = 3\nimports = ['d.toml']\n"),
            (
                "d.toml",
                "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n",
            ),
        ],
        ["refused", "off", "off", "off", "on"],
    ),
    // `V1DisabledFilter`, `V2DisabledFilter`, `v1MigratePluginName`
    tree(
        "what Docker's package writes",
        &[("main.toml", "disabled_plugins = ['cri']\n")],
        [
            "off no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
        ],
    ),
    tree(
        "disabled by its long name in version 1",
        &[(
            "main.toml",
            "disabled_plugins = ['io.containerd.grpc.v1.cri']\n",
        )],
        ["off", "on no-cri", "on no-cri", "on no-cri", "on no-cri"],
    ),
    tree(
        "disabled by its long name in version 2, and a later file that disables nothing",
        &[
            (
                "main.toml",
                "version = 2\nimports = ['d.toml']\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n",
            ),
            ("d.toml", "version = 2\ndisabled_plugins = []\n"),
        ],
        [
            "off no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
        ],
    ),
    tree(
        "what is disabled by any file",
        &[
            (
                "main.toml",
                "version = 2\nimports = ['d.toml']\ndisabled_plugins = ['io.containerd.snapshotter.v1.zfs']\n",
            ),
            (
                "d.toml",
                "version = 2\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n",
            ),
        ],
        [
            "off no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
            "on no-cri",
        ],
    ),
    // `ValidateV2`, `ValidateVersion`
    tree(
        "disabled by its short name in version 2",
        &[("main.toml", "version = 2\ndisabled_plugins = ['cri']\n")],
        ["refused", "refused", "refused", "refused", "refused"],
    ),
    tree(
        "what only 2.x needs is disabled",
        &[(
            "main.toml",
            "version = 2\ndisabled_plugins = ['io.containerd.cri.v1.images']\n",
        )],
        ["off", "on no-cri", "on no-cri", "on no-cri", "on no-cri"],
    ),
    // `Decode`
    tree(
        "a text that means true",
        &[(
            "main.toml",
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = 'true'\n",
        )],
        ["refused", "refused", "refused", "refused", "on"],
    ),
    tree(
        "a list of numbers",
        &[(
            "main.toml",
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\ncdi_spec_dirs = [1]\n",
        )],
        ["refused", "refused", "refused", "refused", "refused"],
    ),
];

// === impl Tree ===

impl Tree {
    fn write(&self) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in self.files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let root = dir.path().to_str().unwrap();
            fs::write(path, text.replace("ROOT", root)).unwrap();
        }
        dir
    }

    fn expected(&self, rules: Rules) -> &'static str {
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

fn outcome(dir: &Path, release: Release) -> String {
    let files = HostFiles::new(Root::new(Path::new("/")).unwrap());
    let main = dir.join("main.toml").display().to_string();
    let settings = read_all(&files, &main, Some(release))
        .and_then(|files| decide(&main, &files, release.rules()));
    settings.map_or_else(|_| "refused".to_owned(), |settings| render(&settings))
}

fn render(settings: &Settings) -> String {
    let switch = if settings.cdi { "on" } else { "off" };
    let dirs = settings
        .spec_dirs
        .as_ref()
        .map(|(dirs, _)| match dirs.as_slice() {
            [] => " none".to_owned(),
            dirs => format!(" {}", dirs.join(" ")),
        });
    let cri = settings.disabled.as_ref().map_or("", |_| " no-cri");
    format!("{switch}{}{cri}", dirs.unwrap_or_default())
}

#[test]
fn each_release_makes_of_a_configuration_what_its_source_says() {
    for tree in TREES {
        let dir = tree.write();
        for version in ["1.7.35", "2.0.14", "2.2.9", "2.3.3", "2.3.7", "2.4.2"] {
            let release = Release::parse(version).unwrap();
            let expected = tree.expected(release.rules());
            assert_eq!(
                outcome(dir.path(), release),
                expected,
                "{}: {version}",
                tree.about
            );
        }
    }
}

#[test]
fn a_patch_release_may_change_the_rules() {
    let of = |files, version| {
        let dir = tree("", files, [""; 5]).write();
        outcome(dir.path(), Release::parse(version).unwrap())
    };
    // containerd/containerd#10165: before, version 3 was taken for 2.
    let three: &[_] = &[(
        "main.toml",
        "version = 3\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n",
    )];
    assert_eq!(of(three, "1.7.16"), "on");
    assert_eq!(of(three, "1.7.17"), "refused");
    // containerd/containerd#9834: before, from where containerd was started.
    let relative: &[_] = &[
        ("main.toml", "version = 2\nimports = ['d/*.toml']\n"),
        (
            "d/1.toml",
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n",
        ),
    ];
    assert_eq!(of(relative, "1.7.15"), "off");
    assert_eq!(of(relative, "1.7.16"), "on");
}

#[test]
fn the_line_of_a_name_is_told() {
    let text = "# it has no disabled_plugins = ['cri']\nversion = 1\ndisabled_plugins = [\n  'zfs',\n  \"cri\",\n]\n";
    assert_eq!(line_of(text, "cri"), Some(5));
    assert_eq!(line_of("disabled_plugins = ['cri']", "cri"), Some(1));
    assert_eq!(line_of(text, "none"), None);
}
