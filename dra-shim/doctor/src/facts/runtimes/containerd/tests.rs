//! Configurations, and what each line of releases makes of them; and the same from
//! containerd itself.

mod itself;
mod trees;

use std::path::Path;

use self::trees::{TREES, Tree};
use super::files::read_all;
use super::release::Release;
use super::rules::{Settings, decide};
use super::*;
use crate::root::Root;

fn outcome(dir: &Path, release: Release) -> String {
    let files = HostFiles::new(Root::new(Path::new("/")).unwrap());
    let main = dir.join("main.toml").display().to_string();
    let settings = match read_all(&files, &main, Some(release)) {
        Ok(read) => decide(&main, &read, release.rules()).ok(),
        Err(ConfigError::Refused(_)) => None,
        Err(ConfigError::Unreadable(error)) => panic!("{error}"),
    };
    settings.map_or_else(|| "refused".to_owned(), |settings| render(&settings))
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
    let of = |main, others, version| {
        let dir = Tree::new(main, others).write();
        outcome(dir.path(), Release::parse(version).unwrap())
    };
    // containerd/containerd#10165: before, version 3 was taken for 2.
    let three = "version = 3\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n";
    assert_eq!(of(three, &[], "1.7.16"), "on");
    assert_eq!(of(three, &[], "1.7.17"), "refused");
    // containerd/containerd#9834: before, from where containerd was started.
    let relative = "version = 2\nimports = ['d/*.toml']\n";
    let on: &[_] = &[(
        "d/1.toml",
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true\n",
    )];
    assert_eq!(of(relative, on, "1.7.15"), "off");
    assert_eq!(of(relative, on, "1.7.16"), "on");
    // containerd/containerd#12891 and #13939
    let newer: &[_] = &[("d/1.toml", "version = 3\n")];
    assert_eq!(of(relative, newer, "2.2.9"), "on");
    assert_eq!(of(relative, newer, "2.3.0"), "refused");
    assert_eq!(of(relative, newer, "2.3.4"), "refused");
    assert_eq!(of(relative, newer, "2.3.5"), "on");
}

#[test]
fn the_line_of_a_name_is_told() {
    let text = "# it has no disabled_plugins = ['cri']\nversion = 1\ndisabled_plugins = [\n  'zfs',\n  \"cri\",\n]\n";
    assert_eq!(line_of(text, "cri"), Some(5));
    assert_eq!(line_of("disabled_plugins = ['cri']", "cri"), Some(1));
    assert_eq!(line_of("disabled_plugins = [\n'cri']", "cri"), Some(2));
    assert_eq!(line_of(text, "none"), None);
}
