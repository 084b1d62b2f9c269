//! V1: the completed claims, and all that 25.3.x knew.

use super::super::claim::{self, json};
use super::super::encode::v1_part;
use super::super::parts::{Claim, Entry, File, Part, V1};
use super::super::records::{Records, Source};
use super::super::template::Template;
use super::super::{Checkpoint, Layout, verify};
use super::{Trust, has_claims, order_of};
use crate::damage::{DamageReason, Mismatch};
use crate::record::Payload;

/// Why V1 can be trusted, absent or not.
pub(super) fn trust<P: Payload>(file: &File<'_>) -> Result<Trust, Mismatch> {
    let mismatch = match verify::v1_text(file) {
        Ok(()) => return Ok(Trust::Text),
        Err(mismatch) => mismatch,
    };
    let present = file.v1.as_ref();
    let read = present.and_then(|_| upgrade::<P>(file, Trust::Content, None).ok());
    let written = read.and_then(|checkpoint| v1_part(&checkpoint.records).ok());
    match written.map(|text| verify::v1_rewritten(file, &text)) {
        Some(Ok(())) => Ok(Trust::Content),
        _ => Err(mismatch),
    }
}

/// Every claim of V1 is completed; its names and boot were not recorded.
pub(super) fn upgrade<P: Payload>(
    file: &File<'_>,
    trust: Trust,
    order: Option<Template>,
) -> Result<Checkpoint<P>, DamageReason> {
    let none = Part::default();
    let part = match (&file.v1, file.v1_text()) {
        (Some(part), _) => part,
        (None, None) => &none,
        (None, Some(_)) => return Err(DamageReason::Layout),
    };
    has_claims(part)?;
    let is_rc2 = !part.claims.is_empty() && part.claims.iter().all(Claim::is_rc2);
    let canonical = Source::default();
    let mut records = Records::read_from(Source {
        layout: if is_rc2 { Layout::V1Rc2 } else { Layout::V1 },
        file: order.unwrap_or(canonical.file),
        v1: order_of(&V1, part, trust)?,
        ..canonical
    });
    for Claim { uid, entry } in &part.claims {
        let (record, text) = match entry {
            Entry::Object(claim) => (
                claim::read_v1(claim)?,
                (trust == Trust::Text)
                    .then(|| claim::upgraded(claim))
                    .flatten(),
            ),
            Entry::Other(list) if is_rc2 => (claim::read_rc2(list)?, None),
            Entry::Other(_) => return Err(DamageReason::Layout),
        };
        records.insert_read(json(uid)?, record, text);
    }
    Ok(Checkpoint {
        records,
        boot_id: None,
    })
}
