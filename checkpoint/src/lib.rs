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
//!
//! Without [`Payload::HAS_ABORTED`], aborted records go to and come from [`ABORTED_FILE`].
//!
//! ## Testing a driver's own sequence
//!
//! The simulated directory `SimDir` of `durable-file` enumerates the crashes:
//!
//! ```rust
//! use std::sync::Arc;
//!
//! # use dra_checkpoint::{BootId, ClaimRef, ClaimStatus, Payload, Store};
//! use durable_file::{Dir, SimDir};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)]
//! # struct Prepared;
//! # impl Payload for Prepared {}
//! # fn open(dir: &SimDir) -> Store<Prepared> {
//! #     let boot = BootId::new("this boot").expect("a boot id");
//! #     Store::open(Arc::new(dir.clone()), boot).expect("a disk that works").0
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let claim = ClaimRef { uid: "a".into(), name: "a".into(), namespace: "default".into() };
//! # let (status, now) = (ClaimStatus::default(), jiff::Timestamp::UNIX_EPOCH);
//! let (records, specs) = (SimDir::new(), SimDir::new());
//! let store = open(&records);
//! let (c, s) = (claim, status.clone());
//! store.commit(move |claims| claims.start(&c, &s, now))?;
//! specs.replace("claim-a.json", b"{}", 0o644)?;
//! store.commit(move |claims| claims.complete("a", &status, vec![Prepared]))?;
//!
//! let mut pairs = 0;
//! for crash in records.crashes() {
//!     let held = open(&crash.dir).view().get("a").map(|record| record.is_completed());
//!     for other in specs.crashes_with(&crash) {
//!         let has_spec = other.dir.read("claim-a.json")?.is_some();
//!         // A file needs a record by which it is undone; a completed claim needs its file.
//!         assert!(!has_spec || held.is_some(), "{crash}, {other}");
//!         assert!(has_spec || held != Some(true), "{crash}, {other}");
//!         pairs += 1;
//!     }
//! }
//! # assert!(pairs > 20, "{pairs}");
//! # Ok(())
//! # }
//! ```

mod aborted_file;
mod boot;
mod checksum;
mod claims;
mod damage;
mod disk;
mod error;
mod format;
mod gofields;
mod kubelet_device;
pub mod lifecycle;
mod record;
mod store;
mod view;

pub use aborted_file::ABORTED_FILE;
pub use boot::{Boot, BootId, BootIdError};
pub use claims::{Claims, Refused};
pub use damage::{DAMAGED_MARK, Damage, DamageReason, FilePart, Mismatch, SETTLED_MARK, Survivors};
pub use disk::{CHECKPOINT_FILE, LOCK_FILE};
pub use dra_claim::{ClaimRef, ClaimStatus};
pub use durable_file::Class;
pub use error::{CommitError, StoreError};
pub use format::{Checkpoint, Damaged, EncodeError, Layout};
pub use gofields::from_go_json;
pub use kubelet_device::KubeletDevice;
pub use record::{ABORTED_FENCE, ClaimRecord, Payload, State};
pub use store::Store;
pub use view::{RecoveryNeeded, View};
