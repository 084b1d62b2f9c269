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
use crate::invocation::Invocation;

/// Judges a host by its facts: the same facts have the same diagnosis.
///
/// `invocation` is what commands of `cdi-gen` in fixes repeat; its default is
/// right where the fixes are not shown to people, too.
pub fn diagnose(facts: &Facts, invocation: &Invocation) -> Diagnosis {
    let module_is_loaded = facts.driver.module.is_some();
    let fabric = facts.fabric.fabric();
    let params = facts.channels.params.as_ref().ok();
    let channel_count = params.and_then(|params| params.imex_channel_count);
    let runtimes = &facts.runtimes.runtimes;
    // Causes come before what follows from them.
    let reports: Vec<(&'static str, AreaReport)> = vec![
        ("driver", driver::check(&facts.driver)),
        ("fabric", fabric::check(&facts.fabric)),
        (
            "channels",
            channels::check(&facts.channels, module_is_loaded, facts.imex.is_down()),
        ),
        ("imex", imex::check(&facts.imex, module_is_loaded, fabric)),
        ("directories", directories::check(&facts.directories)),
        ("runtimes", runtimes::check(&facts.runtimes)),
        ("watching", watchers::check(&facts.watchers)),
        (
            "specs",
            specs::check(&facts.specs, runtimes, channel_count, invocation),
        ),
        (
            "claims",
            claims::check(&facts.claims, &facts.specs, invocation),
        ),
        ("isolation", isolation::check(&facts.isolation)),
    ];
    Diagnosis::new(reports)
}
