//! Precedence, compared with its simplest model.

use std::collections::{BTreeMap, BTreeSet};

use imex_cdi::{Registry, ResolveError, Verdict};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use crate::host::{Host, lamp};

const DEVICES: [&str; 4] = ["a", "b", "c", "d"];

/// The content of a file: devices, or an invalid spec.
type Content = Option<BTreeSet<&'static str>>;

/// Files by directory.
fn directories() -> impl Strategy<Value = Vec<Vec<Content>>> {
    let devices = btree_set(
        proptest::sample::select(DEVICES.to_vec()),
        1..=DEVICES.len(),
    );
    let content = proptest::option::weighted(0.8, devices);
    vec(vec(content, 0..4), 0..4)
}

/// The file of `device`, as (directory, file): it has one if no directory has
/// it twice, that of the last directory that has it.
fn expected(directories: &[Vec<Content>], device: &str) -> Option<(usize, usize)> {
    let mut by_directory = BTreeMap::<usize, Vec<usize>>::new();
    for (dir, files) in directories.iter().enumerate() {
        for (file, content) in files.iter().enumerate() {
            if content
                .as_ref()
                .is_some_and(|devices| devices.contains(device))
            {
                by_directory.entry(dir).or_default().push(file);
            }
        }
    }
    if by_directory.values().any(|files| files.len() > 1) {
        return None;
    }
    by_directory.pop_last().map(|(dir, files)| (dir, files[0]))
}

fn write(host: &Host, directories: &[Vec<Content>]) -> Registry {
    let mut paths = Vec::new();
    for (dir, files) in directories.iter().enumerate() {
        paths.push(host.path(&dir.to_string()));
        for (file, content) in files.iter().enumerate() {
            let path = format!("{dir}/{file}.json");
            match content {
                Some(devices) => {
                    let devices: Vec<_> = devices.iter().copied().collect();
                    host.spec(&path, &devices);
                }
                None => host.write(&path, "{"),
            }
        }
    }
    Registry::load(&paths)
}

proptest! {
    #[test]
    fn every_device_resolves_to_the_file_that_the_rules_name(directories in directories()) {
        let host = Host::new();
        let registry = write(&host, &directories);
        let mut listed = Vec::new();
        for device in DEVICES {
            let file = expected(&directories, device).map(|(dir, file)| format!("{dir}/{file}.json"));
            let found = registry.resolve(&lamp(device)).ok();
            let found = found.map(|found| host.local(&found.file.path));
            prop_assert_eq!(&found, &file);
            listed.extend(file.map(|file| (lamp(device).to_string(), file)));
        }
        prop_assert_eq!(host.devices(&registry), listed);
    }

    #[test]
    fn an_explanation_has_each_file_that_defines_the_device_once_and_agrees_with_the_answer(
        directories in directories()
    ) {
        let host = Host::new();
        let registry = write(&host, &directories);
        for device in DEVICES {
            let explained = registry.explain(&lamp(device));
            let defining: Vec<_> = registry
                .files()
                .iter()
                .filter(|file| file.spec.as_ref().is_ok_and(|spec| {
                    spec.devices().iter().any(|d| d.name.as_str() == device)
                }))
                .map(|file| &file.path)
                .collect();
            // The refused files have no name in them.
            let candidates: Vec<_> = explained.candidates.iter().map(|c| &c.file.path).collect();
            prop_assert_eq!(candidates, defining);
            let count = |is: fn(&Verdict<'_>) -> bool| {
                explained.candidates.iter().filter(|c| is(&c.verdict)).count()
            };
            let wins = count(|v| matches!(v, Verdict::Wins(_)));
            let conflicts = count(|v| matches!(v, Verdict::Conflicts { .. }));
            let shadowed = count(|v| matches!(v, Verdict::Shadowed { .. }));
            match explained.resolution {
                Ok(_) => prop_assert!(wins == 1 && conflicts == 0),
                Err(ResolveError::Conflict { files, .. }) => {
                    prop_assert!(wins == 0 && shadowed == 0 && conflicts == files.len());
                }
                Err(_) => prop_assert!(explained.candidates.is_empty()),
            }
        }
    }
}
