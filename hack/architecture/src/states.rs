//! The tables and diagrams of the product's state machines. Each is generated from
//! the transition function that the product calls.

mod machine;

use std::convert::Infallible;
use std::fmt::Write as _;

use compute_domain_core::lifecycle as domain_life;
use compute_domain_node::policy::{Fault, Policy};
use dra_checkpoint::lifecycle::{self as record_life, Refusal};
use gpu_node::lifecycle::{Occasion, State};
use node_claims::lifecycle::{ClaimState, Transaction};
use nvml_clique::{FabricEvent, NodeFabricState};

use self::machine::Machine;
use crate::document::Block;

/// The page with all of them.
const FILE: &str = "ARCHITECTURE.md";

/// One block for each machine.
pub(crate) fn blocks() -> Vec<Block> {
    vec![
        block("record", machine(&record())),
        block(
            "claim",
            format!("{}\n{}", machine(&claim()), after_a_crash()),
        ),
        block("effects", effects()),
        block("fabric", format!("{}\n{}", machine(&fabric()), policies())),
        block("domain", machine(&domain())),
    ]
}

fn block(name: &'static str, text: String) -> Block {
    Block {
        file: FILE,
        name,
        text,
    }
}

fn machine(machine: &Machine) -> String {
    format!("{}\n{}", machine.picture(), machine.table())
}

/// The record of a claim in the checkpoint.
fn record() -> Machine {
    Machine::of(
        &record_life::Phase::ALL.map(|phase| (phase, phase.name())),
        &record_life::Event::ALL.map(|event| (event, event.name())),
        |phase, event| phase.next(event).map(|next| (next, String::new())),
    )
}

/// The record and the spec of a claim, in all transactions.
fn claim() -> Machine {
    Machine::of(
        &ClaimState::ALL.map(|state| (state, state.name())),
        &Transaction::ALL.map(|transaction| (transaction, transaction.name())),
        |state, transaction| {
            let steps = state.steps(transaction);
            let last = states_after(state, transaction).pop();
            last.unwrap_or(Ok(state)).map(|last| {
                let names: Vec<&str> = steps.iter().map(|step| step.name()).collect();
                (last, names.join(", "))
            })
        },
    )
}

/// The states after each step of a transaction; an error if the record does not allow the step.
fn states_after(state: ClaimState, transaction: Transaction) -> Vec<Result<ClaimState, Refusal>> {
    let mut state = Ok(state);
    let steps = state.into_iter().flat_map(|it| it.steps(transaction));
    steps
        .map(|step| {
            state = state.and_then(|it| it.next(*step));
            state
        })
        .collect()
}

/// A table of the states that a crash between two steps leaves, and of their
/// recovery at the next start.
fn after_a_crash() -> String {
    let mut text =
        String::from("| a crash can leave | in the middle of | the next start |\n|---|---|---|\n");
    for left in ClaimState::ALL {
        let crashed: Vec<String> = Transaction::ALL
            .into_iter()
            .filter(|transaction| {
                ClaimState::ALL.into_iter().any(|state| {
                    let mut after = states_after(state, *transaction);
                    after.pop();
                    left != state && after.contains(&Ok(left))
                })
            })
            .map(|transaction| transaction.name().to_owned())
            .collect();
        if crashed.is_empty() {
            continue;
        }
        let steps = left.steps(Transaction::Start).iter();
        let steps: Vec<&str> = steps.map(|step| step.name()).collect();
        let start = if steps.is_empty() {
            "leaves it to the next Prepare or Unprepare".to_owned()
        } else {
            steps.join(", ")
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {start} |",
            left.name(),
            crashed.join(", ")
        );
    }
    text
}

/// The record and the journal of a claim that changes GPUs: a row for each state, a column for each occasion.
fn effects() -> String {
    let names = Occasion::ALL.map(Occasion::name);
    let mut text = format!("| state | {} |\n", names.join(" | "));
    text.push_str(&"|---".repeat(names.len() + 1));
    text.push_str("|\n");
    for state in State::ALL {
        let cells = Occasion::ALL.map(|occasion| {
            let steps = state.steps(occasion).iter().map(|step| step.name());
            steps.collect::<Vec<_>>().join(", ")
        });
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {} | {} |", state.name(), cells.join(" | "));
    }
    text
}

/// The state of a node's NVLink fabric, as a watch sees it.
fn fabric() -> Machine {
    Machine::of(
        &NodeFabricState::ALL.map(|state| (state, state.name())),
        &FabricEvent::ALL.map(|event| (event, event.name())),
        |state, event| Ok::<_, Infallible>((state.next(event), String::new())),
    )
}

/// A table of the plugin's actions in each state of the fabric.
fn policies() -> String {
    let mut text = String::from(
        "| fabric | channel major | slice | may be tainted by | plugin ready | Prepare |\n|---|---|---|---|---|---|\n",
    );
    for fabric in NodeFabricState::ALL {
        for (has_major, major) in [(true, "known"), (false, "missing")] {
            let policy = Policy::new(fabric, has_major);
            let ready = if policy.ready { "yes" } else { "no" };
            let fault = policy.fault.map_or("", Fault::option);
            let (slice, prepare) = (policy.slice.name(), policy.prepare.name());
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {major} | {slice} | {fault} | {ready} | {prepare} |",
                fabric.name()
            );
        }
    }
    text
}

/// A ComputeDomain and the controller's actions.
fn domain() -> Machine {
    use domain_life::Action;

    Machine::of(
        &domain_life::State::ALL.map(|state| (state, state.name())),
        &domain_life::Event::ALL.map(|event| (event, event.name())),
        |state, event| {
            let transition = state.on(event);
            let action = match transition.action {
                Action::Nothing => String::new(),
                action => action.name(event).to_owned(),
            };
            Ok::<_, Infallible>((transition.next, action))
        },
    )
}
