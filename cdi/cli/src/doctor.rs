//! `cdi-gen doctor`: what is wrong with a GPU host, causes first.

mod bundle;
mod report;

use std::io::Write;

use host_doctor::{Host, Invocation, Options, examine};
use imex_cdi::Registry;

use self::bundle::Bundle;
use self::report::Report;
use crate::args::Doctor;
use crate::outcome::{Failure, Outcome};
use crate::output::print;
use crate::stderr::note;

pub(crate) fn run(args: &Doctor, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let host = args.specs.host()?;
    let registry = args.specs.registry()?;
    let options = Options {
        kubelet_root: args.kubelet.path.clone(),
        spec_dirs: args.specs.dirs.clone(),
        imex_socket: args.imex_socket.clone(),
    };
    let invocation = Invocation::new(&args.specs.root, options.clone());
    let (diagnosis, claims) = examine(&host, &registry, &options, &invocation);
    let bundle = args.bundle.as_deref().map(Bundle::create).transpose()?;
    let examined = Examined {
        report: Report::new(&args.specs.root, diagnosis),
        host,
        registry,
        claims,
    };
    print(&examined.report, args.json, stdout)?;
    if let Some(bundle) = bundle {
        let names = bundle.write(&examined)?;
        for name in names {
            note(&format!("in the bundle: {name}"));
        }
    }
    Ok(if examined.report.is_healthy() {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

/// What a bundle is made of.
struct Examined {
    report: Report,
    host: Host,
    registry: Registry,
    /// A line for each claim.
    claims: String,
}
