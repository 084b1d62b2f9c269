//! The tables and pictures of the product's state machines. Each comes from the
//! transition function that the code itself calls.

#[expect(dead_code, reason = "the machines follow")]
mod machine;

use crate::document::Block;

/// One block for each machine.
pub(crate) fn blocks() -> Vec<Block> {
    vec![]
}
