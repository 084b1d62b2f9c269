//! One check for each area: facts in, findings out. Pure: no file, no clock, no
//! process.

mod channels;
mod claims;
mod directories;
mod driver;
mod fabric;
mod imex;
mod isolation;
mod runtimes;
mod specs;
mod watchers;

use crate::area::AreaReport;
use crate::diagnosis::Diagnosis;
use crate::facts::Facts;
use crate::facts::claims::kubelet_root::Presence;
use crate::facts::runtimes::RuntimeFacts;
use crate::invocation::Invocation;

/// Judges a host by its facts: the same facts have the same diagnosis.
///
/// `invocation` is what commands of `cdi-gen` in fixes repeat; its default is
/// right where the fixes are not shown to people, too.
pub fn diagnose(facts: &Facts, invocation: &Invocation) -> Diagnosis {
    let fabric = facts.fabric.fabric();
    let context = channels::Context {
        module_is_loaded: facts.driver.module.is_some(),
        imex_is_down: facts.imex.is_down(),
        has_plugin: facts.claims.root.plugin == Presence::Present,
    };
    let channels::Context {
        module_is_loaded,
        has_plugin,
        ..
    } = context;
    let params = facts.channels.params.as_ref().ok();
    let channel_count = params.and_then(|params| params.imex_channel_count);
    let runtimes = &facts.runtimes.runtimes;
    // Causes come before what follows from them.
    let reports: Vec<(&'static str, AreaReport)> = vec![
        ("driver", driver::check(&facts.driver)),
        ("fabric", fabric::check(&facts.fabric)),
        ("channels", channels::check(&facts.channels, context)),
        ("imex", imex::check(&facts.imex, module_is_loaded, fabric)),
        (
            "directories",
            directories::check(&facts.directories, has_plugin),
        ),
        ("runtimes", check_runtimes(facts)),
        ("watching", watchers::check(&facts.watchers)),
        (
            "specs",
            specs::check(&facts.specs, runtimes, channel_count, invocation),
        ),
        (
            "claims",
            claims::check(&facts.claims, &facts.specs, invocation),
        ),
        ("isolation", isolation::check(&facts.isolation, has_plugin)),
    ];
    Diagnosis::new(reports)
}

/// A runtime that reads not all directories is told only if it misses one that matters;
/// then all are named that it is to read.
fn check_runtimes(facts: &Facts) -> AreaReport {
    let mut report = runtimes::check(&facts.runtimes);
    let needed = runtimes::check(&needed_from_runtimes(facts)).findings;
    report.findings.retain(|finding| {
        let mut needed = needed.iter().filter(|it| it.id == finding.id);
        finding.id != "runtime-spec-dirs" || needed.any(|it| it.subject == finding.subject)
    });
    report
}

/// Runtimes need not read a directory in which nothing is, and into which nobody
/// writes.
fn needed_from_runtimes(facts: &Facts) -> RuntimeFacts {
    let mut runtimes = facts.runtimes.clone();
    let directories = &facts.directories;
    let has_plugin = facts.claims.root.plugin == Presence::Present;
    let last = runtimes.spec_dirs.len().saturating_sub(1);
    let mut needed = (0..)
        .zip(&directories.directories)
        .map(|(index, directory)| {
            let prefix = format!("{}/", directory.path);
            let mut files = directories.files.iter();
            files.any(|file| file.path.starts_with(&prefix)) || (has_plugin && index == last)
        });
    // In the same order; one that was not examined is needed.
    runtimes.spec_dirs.retain(|_| needed.next().unwrap_or(true));
    runtimes
}
