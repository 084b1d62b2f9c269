//! One check for each area: facts in, findings out. Pure: no files, clock or processes.

mod channels;
mod claims;
mod directories;
mod driver;
mod fabric;
mod gpus;
mod imex;
mod isolation;
mod runtimes;
mod specs;
mod watchers;

use std::path::Path;

use gpu_inventory::Fact;

pub use self::gpus::{GPU_WITHOUT_IDENTITY, gpu_findings};

use crate::diagnosis::AreaReport;
use crate::diagnosis::Diagnosis;
use crate::dra_driver::DraDriver;
use crate::facts::Facts;
use crate::facts::claims::ClaimFacts;
use crate::facts::directories::{CdiDirectory, DirectoryFacts};
use crate::facts::specs::SpecFileFacts;
use crate::options::Invocation;
use crate::spec_node::KUBELET_PLUGINS;

/// Judges a host by its facts: the same facts give the same diagnosis.
///
/// `invocation` has the options that `cdi-gen` commands in fixes repeat. The default is fine
/// if no one reads the fixes.
pub fn diagnose(facts: &Facts, invocation: &Invocation) -> Diagnosis {
    let fabric = facts.fabric.fabric();
    let module = &facts.gpus.driver.module;
    let module_is_loaded = *module != Fact::Absent;
    let has_plugin = has_plugin(facts);
    let has_plugin_of = |driver| {
        let mut drivers = facts.claims.iter();
        drivers.any(|it| it.driver() == driver && it.has_plugin())
    };
    let gives_channels = has_plugin_of(DraDriver::ComputeDomain);
    let gives_gpus = has_plugin_of(DraDriver::Gpu);
    let context = channels::Context {
        module_is_loaded,
        imex_is_down: facts.imex.is_down(),
        has_plugin: gives_channels,
    };
    let expected_by = driver::ExpectedBy {
        plugin: has_plugin,
        driver_managed: facts.imex.driver_managed,
        tools: facts.isolation.toolkit.is_some()
            || facts.imex.unit.is_some()
            || facts.imex.program.is_some(),
    };
    let params = facts.channels.params.as_ref().ok();
    let channel_count = params.and_then(|params| params.imex_channel_count);
    let driver_version = module.known().map(String::as_str);
    let driver = driver::check(&facts.driver, &facts.gpus, expected_by);
    let channels = channels::check(&facts.channels, context);
    let reported = gpus::Reported::new(&driver, fabric, &channels);
    // Causes come before their consequences.
    let reports: Vec<(&'static str, AreaReport)> = vec![
        ("driver", driver),
        (
            "gpus",
            gpus::check(
                &facts.gpus,
                facts.driver.container_files.as_ref(),
                reported,
                gives_gpus,
            ),
        ),
        (
            "fabric",
            fabric::check(&facts.fabric, gpus::hanging(&facts.gpus)),
        ),
        ("channels", channels),
        ("imex", imex::check(&facts.imex, module_is_loaded, fabric)),
        (
            "directories",
            directories::check(&facts.directories, has_plugin),
        ),
        (
            "runtimes",
            runtimes::check(
                &facts.runtimes,
                wants_cdi(facts),
                &needed_dirs(&facts.directories, &facts.runtimes.spec_dirs, has_plugin),
            ),
        ),
        ("watching", watchers::check(&facts.watchers)),
        (
            "specs",
            specs::check(
                &facts.specs,
                specs::Context {
                    runtimes: &facts.runtimes,
                    channel_count,
                    driver_version,
                },
                invocation,
            ),
        ),
        (
            "claims",
            claims::check(&facts.claims, &facts.specs, &facts.gpus, invocation),
        ),
        (
            "isolation",
            isolation::check(
                &facts.isolation,
                &facts.specs,
                isolation::Context {
                    has_plugin,
                    gives_channels,
                },
            ),
        ),
    ];
    Diagnosis::new(reports)
}

/// Whether a DRA driver's plugin is on the host.
fn has_plugin(facts: &Facts) -> bool {
    facts.claims.iter().any(ClaimFacts::has_plugin)
}

/// Whether something on the host gives devices to kubelet by CDI: a plugin, or another DRA driver or
/// device plugin that has written a spec of a vendor `k8s.*`.
fn wants_cdi(facts: &Facts) -> bool {
    let is_kubelets = |file: &SpecFileFacts| {
        let spec = file.spec.as_ref().ok();
        spec.is_some_and(|spec| spec.kind().vendor().starts_with(KUBELET_PLUGINS))
    };
    has_plugin(facts) || facts.specs.files.iter().any(is_kubelets)
}

/// The directories that a runtime has to read: those with files, and the one into which the
/// plugin writes. `spec_dirs` are the directories of `facts`, by their configured names; one
/// that was not examined is needed.
fn needed_dirs<'a>(
    facts: &DirectoryFacts,
    spec_dirs: &'a [String],
    has_plugin: bool,
) -> Vec<&'a str> {
    let last = spec_dirs.len().saturating_sub(1);
    let has_files = |dir: &CdiDirectory| {
        let parents = facts.files.iter().map(|it| Path::new(&it.path).parent());
        parents
            .flatten()
            .any(|parent| parent == Path::new(&dir.path))
    };
    let is_needed = |index: usize| {
        let examined = facts.directories.get(index);
        (has_plugin && index == last) || examined.is_none_or(has_files)
    };
    let dirs = spec_dirs.iter().enumerate();
    let needed = dirs.filter(|(index, _)| is_needed(*index));
    needed.map(|(_, dir)| dir.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::directories::{CdiDirectoryState, FileMode};

    #[test]
    fn a_directory_is_needed_for_its_files_or_for_the_plugin() {
        let dirs = ["/etc/cdi/", "/opt/cdi", "/var/run/cdi"].map(str::to_owned);
        let directories = dirs.iter().map(|path| CdiDirectory {
            path: path.clone(),
            state: CdiDirectoryState::Absent,
        });
        let facts = DirectoryFacts {
            directories: directories.collect(),
            files: vec![FileMode {
                path: "/etc/cdi/a.json".to_owned(),
                mode: None,
            }],
        };
        assert_eq!(needed_dirs(&facts, &dirs, false), ["/etc/cdi/"]);
        assert_eq!(
            needed_dirs(&facts, &dirs, true),
            ["/etc/cdi/", "/var/run/cdi"]
        );
        assert_eq!(needed_dirs(&DirectoryFacts::default(), &dirs, false), dirs);
    }
}
