//! `cdi-gen doctor`: what is wrong with a GPU host, causes first.
//!
//! ```text
//! Files, Host, Registry ──► a check per area ──► Checked ──► Report ──► text, JSON
//!                                                                  └──► bundle
//! ```

mod bundle;
mod channels;
mod claims;
mod command_line;
mod directories;
mod driver;
mod fabric;
mod files;
mod finding;
mod given;
mod imex;
mod isolation;
mod packages;
mod report;
mod runtimes;
mod specs;
mod watchers;

use std::io::Write;

use self::bundle::Bundle;
use self::files::Files;
use self::finding::Checked;
use self::given::Given;
use self::report::Report;
use crate::args::Doctor;
use crate::outcome::{Failure, Outcome};
use crate::output::print;
use crate::stderr::note;

pub(crate) fn run(args: &Doctor, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let examined = examine(args)?;
    let bundle = args.bundle.as_deref().map(Bundle::create).transpose()?;
    let report = &examined.report;
    print(report, args.json, stdout)?;
    if let Some(bundle) = bundle {
        let names = bundle.write(&examined)?;
        for name in names {
            note(&format!("in the bundle: {name}"));
        }
    }
    Ok(if report.healthy {
        Outcome::Clean
    } else {
        Outcome::Findings
    })
}

/// What a bundle is made of.
struct Examined {
    report: Report,
    files: Files,
    registry: imex_cdi::Registry,
    /// A line for each claim.
    claims: String,
}

/// Looks at everything, in the order in which one thing needs another: a
/// finding of an earlier area may be the cause of one of a later.
fn examine(args: &Doctor) -> Result<Examined, Failure> {
    let files = Files::new(args.specs.root()?);
    let host = args.specs.host()?;
    let registry = args.specs.registry()?;
    let given = Given::of(args);
    let dirs = args.specs.dirs.iter();
    let dirs: Vec<String> = dirs.map(|dir| dir.display().to_string()).collect();

    let (driver, of_driver) = driver::check(&files);
    let (fabric, of_fabric) = fabric::check(&files, &driver);
    let (found, of_runtimes) = runtimes::check(&files, &dirs);
    let (of_claims, claims) = claims::check(&files, &registry, given);
    let areas: Vec<(&'static str, Checked)> = vec![
        ("driver", of_driver),
        ("fabric", of_fabric),
        ("channels", channels::check(&files, &driver)),
        (
            "imex",
            imex::check(
                &files,
                &driver,
                fabric.as_ref(),
                args.imex_socket.as_deref(),
            ),
        ),
        ("directories", directories::check(&files, &registry)),
        ("runtimes", of_runtimes),
        ("watching", watchers::check(&files, &registry)),
        (
            "specs",
            specs::check(&files, &host, &registry, &found, given),
        ),
        ("claims", of_claims),
        ("isolation", isolation::check(&files)),
    ];
    Ok(Examined {
        report: Report::of(&args.specs.root, areas),
        files,
        registry,
        claims,
    })
}
