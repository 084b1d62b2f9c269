//! The tables and pictures of the product's state machines. Each comes from the
//! transition function that the code itself calls.

mod machine;

use std::convert::Infallible;

use compute_domain_core::lifecycle as domain_life;
use dra_checkpoint::lifecycle as record_life;
use nvml_clique::{FabricEvent, NodeFabricState};

use self::machine::Machine;
use crate::document::Block;

/// Where all of them are.
const FILE: &str = "ARCHITECTURE.md";

/// One block for each machine.
pub(crate) fn blocks() -> Vec<Block> {
    vec![
        block("record", &record()),
        block("fabric", &fabric()),
        block("domain", &domain()),
    ]
}

fn block(name: &'static str, machine: &Machine) -> Block {
    Block {
        file: FILE,
        name,
        text: format!("{}\n{}", machine.picture(), machine.table()),
    }
}

/// The record of a claim in the checkpoint.
fn record() -> Machine {
    Machine::of(
        &record_life::Phase::ALL.map(|phase| (phase, phase.name())),
        &record_life::Event::ALL.map(|event| (event, event.name())),
        |phase, event| phase.next(event).map(|next| (next, "")),
    )
}

/// What a watch knows of its node's NVLink fabric.
fn fabric() -> Machine {
    Machine::of(
        &NodeFabricState::ALL.map(|state| (state, state.name())),
        &FabricEvent::ALL.map(|event| (event, event.name())),
        |state, event| Ok::<_, Infallible>((state.next(event), "")),
    )
}

/// A ComputeDomain, and what the controller does about it.
fn domain() -> Machine {
    use domain_life::Action;

    Machine::of(
        &domain_life::State::ALL.map(|state| (state, state.name())),
        &domain_life::Event::ALL.map(|event| (event, event.name())),
        |state, event| {
            let transition = state.on(event);
            let action = match transition.action {
                Action::Nothing => "",
                action => action.name(),
            };
            Ok::<_, Infallible>((transition.next, action))
        },
    )
}
