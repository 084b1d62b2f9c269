//! `cdi-gen why`: why a device resolves, or why it does not.

use std::io::Write;

use crate::args::Why;
use crate::explanation::{Answer, WhyReport};
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};
use crate::output::print;

pub(super) fn run(args: Why, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let Why { name, specs, json } = args;
    let specs = HostSpecs::open(&specs)?;
    let registry = specs.registry();
    let mut why = WhyReport::new(&registry, &name);
    why.check_host(&specs.host(), &registry, &name);
    print(&why, json, stdout)?;
    Ok(match why.answer {
        Answer::Resolves => Outcome::Clean,
        Answer::Unusable => Outcome::Findings,
        Answer::Unresolved => Outcome::Unresolved,
        Answer::Unknown => Outcome::Io,
    })
}
