#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod bounded_read;
mod class;
mod error_chain;
mod one_line;
mod with_hint;

pub use bounded_read::{FileKind, ReadError, read_bounded};
pub use class::Class;
pub use dra_common_derive::Advice;
pub use error_chain::error_chain;
pub use one_line::{OneLine, joined_lines, truncated};
pub use with_hint::with_hint;
