//! `cdi-gen doctor`: finds faults of a GPU host, causes first.

mod bundle;
mod report;

use std::io::Write;

use host_doctor::{Facts, Invocation, Options, diagnose};

use self::bundle::Bundle;
use self::report::DoctorReport;
use crate::args::Doctor;
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};
use crate::output::print;
use crate::terminal::note;

pub(super) fn run(args: &Doctor, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let specs = HostSpecs::open(&args.specs)?;
    specs.check_root()?;
    let host = &specs.host;
    let options = Options {
        kubelet_root: args.kubelet.path.clone(),
        driver_root: args.driver_root.clone(),
        spec_dirs: args.specs.dirs.clone(),
        imex_socket: args.imex_socket.clone(),
    };
    let facts = Facts::read(host, &options);
    let diagnosis = diagnose(&facts, &Invocation::new(&args.specs.root, options));
    let bundle = args.bundle.as_deref().map(Bundle::create).transpose()?;
    let report = DoctorReport::new(&args.specs.root, diagnosis);
    print(&report, args.json, stdout)?;
    if let Some(bundle) = bundle {
        for name in bundle.write(&report, host, &facts)? {
            note(&format!("in the bundle: {name}"));
        }
    }
    Ok(Outcome::of(report.healthy))
}
