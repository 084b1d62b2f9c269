//! Reading V2: every claim.

use std::collections::BTreeMap;

use super::super::checkpoint::Checkpoint;
use super::super::claim;
use super::super::encode::PartV2;
use super::super::layout::Layout;
use super::super::parts::{Claim, File, Part, V1, V2};
use super::super::records::{Records, Source};
use super::super::template::Template;
use super::super::verify;
use super::flaw::Flaw;
use super::part::{Trust, check_claims, parse_uid, part_order};
use crate::damage::{DamageReason, Mismatch};
use crate::record::{ClaimRecord, Payload};

const NAME: &str = "v2";

/// V2 as far as it can be used.
pub(super) struct Flawed<P> {
    pub(super) flaw: Flaw,
    pub(super) mismatch: Option<Mismatch>,
    /// The claims that can be read, of a part that can be trusted.
    pub(super) saved: Option<Checkpoint<P>>,
}

pub(super) fn read<P: Payload>(
    file: &File<'_>,
    part: &Part<'_>,
    text: Result<(), Mismatch>,
    v1: Option<Trust>,
    order: Option<&Template>,
) -> Result<Checkpoint<P>, Flawed<P>> {
    let (trust, mismatch) = match text {
        Ok(()) => (Trust::Text, None),
        Err(mismatch) => (Trust::Content, Some(mismatch)),
    };
    let (saved, flaw) = match read_claims(file, part, trust, v1, order) {
        Ok((checkpoint, flaw)) => (Some(checkpoint), flaw),
        Err(flaw) => (None, Some(flaw)),
    };
    match (mismatch, saved, flaw) {
        (None, Some(checkpoint), None) => Ok(checkpoint),
        (None, saved, flaw) => Err(Flawed {
            flaw: flaw.unwrap_or_else(|| DamageReason::Layout.into()),
            mismatch: None,
            saved,
        }),
        (Some(_), Some(checkpoint), None) if is_as_written(part, &checkpoint) => Ok(checkpoint),
        (mismatch, _, flaw) => Err(Flawed {
            flaw: Flaw::in_v2_checksum(part, flaw),
            mismatch,
            saved: None,
        }),
    }
}

/// Go's rule: the checksum is that of what it would write.
fn is_as_written<P: Payload>(part: &Part<'_>, read: &Checkpoint<P>) -> bool {
    let written = PartV2::new(&read.records, read.boot_id());
    written.is_ok_and(|text| verify::v2_rewritten(part, &text.zeroed()).is_ok())
}

/// The claims that can be read, and why the first other cannot.
fn read_claims<P: Payload>(
    file: &File<'_>,
    part: &Part<'_>,
    trust: Trust,
    v1: Option<Trust>,
    order: Option<&Template>,
) -> Result<(Checkpoint<P>, Option<Flaw>), Flaw> {
    check_claims((NAME, part))?;
    let v1 = file.v1.as_ref().filter(|_| v1 == Some(Trust::Text));
    let source = source(part, trust, v1, order)?;
    let boot_id = source.boot_id.clone();
    let mut records = Records::read_from(source);
    let v1_claims = v1.map(|part| &part.claims[..]).unwrap_or_default();
    let v1_claims: BTreeMap<_, _> = v1_claims.iter().map(|c| (c.uid, &c.entry)).collect();
    let mut flaw: Option<Flaw> = None;
    for Claim { uid, entry } in &part.claims {
        let read: Result<ClaimRecord<P>, _> = claim::read_v2(entry);
        match (parse_uid(NAME, uid), read) {
            (Ok(key), Ok(record)) => {
                let carry = || claim::carried(&key, &record, entry, v1_claims.get(uid).copied());
                let text = (trust == Trust::Text).then(carry).flatten();
                records.insert_read(key, record, text);
            }
            (Ok(key), Err(bad)) => flaw = flaw.or_else(|| Some(Flaw::in_record(key, bad))),
            (Err(bad), _) => flaw = flaw.or(Some(bad)),
        }
    }
    Ok((Checkpoint { records, boot_id }, flaw))
}

/// What is kept beside the claims.
fn source(
    part: &Part<'_>,
    trust: Trust,
    v1: Option<&Part<'_>>,
    order: Option<&Template>,
) -> Result<Source, Flaw> {
    let canonical = Source::default();
    let boot_id = part
        .get("nodeBootID")
        .map_or(Ok(None), serde_json::from_slice);
    let boot_id: Option<String> =
        boot_id.map_err(|error| Flaw::in_member("v2.nodeBootID", claim::message(&error)))?;
    let boot_id = boot_id.filter(|id| !id.is_empty());
    let v1 = v1.and_then(|part| part_order(("v1", part), &V1, Trust::Text).ok());
    Ok(Source {
        layout: match boot_id {
            Some(_) => Layout::V2,
            None => Layout::V2WithoutBootId,
        },
        boot_id,
        file: order.cloned().unwrap_or(canonical.file),
        v1: v1.unwrap_or(canonical.v1),
        v2: part_order((NAME, part), &V2, trust)?,
    })
}
