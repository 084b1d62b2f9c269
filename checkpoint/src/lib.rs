#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
//!
//! ## How data flows
//!
//! ```text
//!            Store::open                      Store::commit(|claims| …)
//!                 │                                     │
//!      pu.lock ───┤                          pu.lock ───┤
//!                 ▼                                     ▼
//!  checkpoint.json ─► format::decode ─► View ─► Claims (a copy, legal moves only)
//!        ▲                  │                           │
//!        │                  └► Damage                   ▼
//!        └───── durable_file::Dir::replace ◄── format::encode
//! ```

mod boot;
mod checksum;
mod claims;
mod damage;
mod disk;
mod error;
mod format;
mod gofields;
pub mod lifecycle;
mod record;
mod store;
mod view;

pub use boot::{Boot, BootId, BootIdError};
pub use claims::{Claims, Refused};
pub use damage::{DAMAGED_MARK, Damage, DamageReason, FilePart, Mismatch, SETTLED_MARK, Survivors};
pub use disk::{CHECKPOINT_FILE, LOCK_FILE};
pub use dra_claim::{ClaimRef, ClaimStatus};
pub use durable_file::Class;
pub use error::{CommitError, StoreError};
pub use format::{Checkpoint, Damaged, EncodeError, Layout};
pub use gofields::from_go_json;
pub use record::{ABORTED_FENCE, ClaimRecord, Payload, State};
pub use store::Store;
pub use view::{RecoveryNeeded, View};
