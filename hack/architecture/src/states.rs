//! The tables and pictures of the product's state machines. Each comes from the
//! transition function that the code itself calls.

mod machine;

use std::convert::Infallible;

use dra_checkpoint::lifecycle;
use nvml_clique::{FabricEvent, NodeFabricState};

use self::machine::Machine;
use crate::document::Block;

/// Where all of them are.
const FILE: &str = "ARCHITECTURE.md";

/// One block for each machine.
pub(crate) fn blocks() -> Vec<Block> {
    vec![block("record", &record()), block("fabric", &fabric())]
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
        &lifecycle::Phase::ALL.map(|phase| (phase, phase.name())),
        &lifecycle::Event::ALL.map(|event| (event, event.name())),
        lifecycle::Phase::next,
    )
}

/// What a watch knows of its node's NVLink fabric.
fn fabric() -> Machine {
    Machine::of(
        &NodeFabricState::ALL.map(|state| (state, state.name())),
        &FabricEvent::ALL.map(|event| (event, event.name())),
        |state, event| Ok::<_, Infallible>(state.next(event)),
    )
}
