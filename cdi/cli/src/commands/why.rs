//! `cdi-gen why`: why a CDI name resolves, or why it does not: every file that could define the
//! device, similar names, and the fix.

mod fix;
mod report;
mod text;

use std::io::Write;

use imex_cdi::{QualifiedName, Registry};

use self::report::{Answer, WhyReport};
use crate::args::Why;
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};
use crate::output::print;

pub(super) fn run(args: &Why, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let specs = HostSpecs::open(&args.specs)?;
    let registry = specs.registry();
    let mut why = WhyReport::new(&registry, &args.name);
    why.check_host(&specs.host, &registry, &args.name);
    print(&why, args.json, stdout)?;
    Ok(match why.answer {
        Answer::Resolves => Outcome::Clean,
        Answer::Unusable => Outcome::Findings,
        Answer::Unresolved => Outcome::Unresolved,
        Answer::Unknown => Outcome::Io,
    })
}

/// The failure of a command whose device does not resolve, with the explanation of `why`.
pub(super) fn unresolved(registry: &Registry, name: &QualifiedName) -> Failure {
    let report = WhyReport::new(registry, name);
    let failure = match report.answer {
        Answer::Unknown => Failure::new(Outcome::Io, "cannot determine whether a device resolves"),
        _ => Failure::new(Outcome::Unresolved, "a device does not resolve"),
    };
    Failure {
        details: text::lines(&report),
        ..failure
    }
}
