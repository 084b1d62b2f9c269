//! The requests to the API server.

use std::collections::BTreeSet;
use std::io::Write;

use super::super::measured::{Round, Size, each};
use super::super::round::IDLE;
use crate::audit::{Request, Requests};
use crate::table::verdict;

/// The limit of writes to create a domain, and of writes to delete it.
const WRITES: f64 = 3.0;

/// The phases of a program, in order.
const PHASES: [(&str, Get); 4] = [
    ("create", |round| Some(&round.create.requests)),
    ("idle", |round| round.rest.as_ref().map(|rest| &rest.idle)),
    ("restart", |round| {
        round.rest.as_ref().map(|rest| &rest.requests)
    }),
    ("delete", |round| Some(&round.delete.requests)),
];

type Get = fn(&Round) -> Option<&Requests>;

pub(super) fn write(out: &mut impl Write, sizes: &[Size]) -> anyhow::Result<()> {
    each_kind(out, sizes)?;
    judged(out, sizes)
}

fn each_kind(out: &mut impl Write, sizes: &[Size]) -> anyhow::Result<()> {
    writeln!(
        out,
        "The subject's requests as the API server counts them: create and delete, per domain; \
         idle ({} s) and restart with all domains there, in all\n",
        IDLE.as_secs()
    )?;
    write!(out, "| when | request |")?;
    for size in sizes {
        write!(out, " {} domains |", size.domains)?;
    }
    writeln!(out, "\n|---|---|{}", "--:|".repeat(sizes.len()))?;
    for (phase, get) in PHASES {
        let totals: Vec<(f64, Requests)> = sizes.iter().map(|size| sum(size, get)).collect();
        let kinds: BTreeSet<&Request> = totals
            .iter()
            .flat_map(|(_, requests)| requests.each().map(|(request, _)| request))
            .collect();
        for kind in kinds {
            write!(out, "| {phase} | {} {} |", kind.verb, kind.resource)?;
            for ((rounds, requests), size) in totals.iter().zip(sizes) {
                let count = requests.of(kind);
                match phase {
                    "create" | "delete" => {
                        write!(out, " {:.2} |", each(count, size.domains) / rounds)?;
                    }
                    _ => write!(out, " {count} |")?,
                }
            }
            writeln!(out)?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// The requests of all rounds with this phase, and the number of these rounds.
fn sum(size: &Size, get: Get) -> (f64, Requests) {
    let mut rounds = 0.0;
    let mut requests = Requests::default();
    for round in size.subject.iter().filter_map(get) {
        rounds += 1.0;
        requests.extend(round);
    }
    (rounds, requests)
}

fn judged(out: &mut impl Write, sizes: &[Size]) -> anyhow::Result<()> {
    writeln!(
        out,
        "Judged: writes per domain without events and the lease; LISTs while it creates, idles and deletes; \
         conflicts (409) in all; idle: what is neither a watch nor the lease; writes of a restart\n\n\
         | domains | writes, create | floor | writes, delete | floor | aim | LISTs | conflicts | idle | restart | aim | | other refusals |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|---|"
    )?;
    for size in sizes {
        judge(out, size)?;
    }
    writeln!(out)?;
    Ok(())
}

fn judge(out: &mut impl Write, size: &Size) -> anyhow::Result<()> {
    let [create, idle, restart, delete] = PHASES.map(|(_, get)| sum(size, get));
    let writes =
        |(rounds, requests): &(f64, Requests)| each(requests.writes(), size.domains) / rounds;
    let floor =
        |get: fn(&Round) -> &Requests| size.floor(|round| each(get(round).writes(), size.domains));
    let mut all = Requests::default();
    for (_, requests) in [&create, &idle, &delete] {
        all.extend(requests);
    }
    let lists = all.lists();
    all.extend(&restart.1);
    let (conflicts, beside) = (all.conflicts(), idle.1.requests_without_watches());
    let rewritten = restart.1.writes();
    let met = writes(&create).max(writes(&delete)) <= WRITES
        && [lists, conflicts, beside, rewritten] == [0; 4];
    writeln!(
        out,
        "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {WRITES} | {lists} | {conflicts} | {beside} | {rewritten} | 0 | {} | {} |",
        size.domains,
        writes(&create),
        floor(|round| &round.create.requests),
        writes(&delete),
        floor(|round| &round.delete.requests),
        verdict(met),
        all.other_refusals(),
    )?;
    Ok(())
}
