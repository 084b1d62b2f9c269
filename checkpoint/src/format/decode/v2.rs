//! Reads V2: every claim.

use std::collections::BTreeMap;

use super::super::checkpoint::Checkpoint;
use super::super::claim;
use super::super::encode::PartV2;
use super::super::layout::Layout;
use super::super::parts::{Part, V1, V2};
use super::super::records::{Records, Source};
use super::super::template::Template;
use super::super::verify;
use super::flaw::Flaw;
use super::part::{Trust, check_claims, parse_uid, part_order};
use crate::damage::Mismatch;
use crate::record::{ClaimRecord, Payload};

const NAME: &str = "v2";

/// The readable claims of V2.
pub(super) struct ReadV2<P> {
    /// The claims that can be read; `None` if V2 cannot be trusted.
    pub(super) saved: Option<Checkpoint<P>>,
    /// Why claims are missing.
    pub(super) flaw: Option<Flaw>,
    pub(super) mismatch: Option<Mismatch>,
}

/// Reads V2. `text_check` is the result of verifying the checksum of its text; `v1` is the file's V1, if its
/// text can be trusted.
pub(super) fn read<P: Payload>(
    part: &Part<'_>,
    text_check: Result<(), Mismatch>,
    v1: Option<&Part<'_>>,
    order: Option<&Template>,
) -> ReadV2<P> {
    let mismatch = text_check.err();
    let trust = match mismatch {
        None => Trust::Text,
        Some(_) => Trust::Content,
    };
    let (saved, flaw) = match read_claims(part, trust, v1, order) {
        Ok((checkpoint, flaw)) => (Some(checkpoint), flaw),
        Err(flaw) => (None, Some(flaw)),
    };
    let is_whole = |checkpoint| flaw.is_none() && is_as_written(part, checkpoint);
    if mismatch.is_none() || saved.as_ref().is_some_and(is_whole) {
        return ReadV2 {
            saved,
            flaw,
            mismatch: None,
        };
    }
    ReadV2 {
        saved: None,
        flaw: Some(Flaw::in_v2_checksum(part, flaw)),
        mismatch,
    }
}

/// Go's rule: the checksum must be that of the text that Go would write.
fn is_as_written<P: Payload>(part: &Part<'_>, read: &Checkpoint<P>) -> bool {
    let written = PartV2::new(&read.records, read.boot_id());
    written.is_ok_and(|text| verify::v2_rewritten(part, &text.zeroed()).is_ok())
}

/// The claims that can be read, and the flaw of the first one that cannot.
fn read_claims<P: Payload>(
    part: &Part<'_>,
    trust: Trust,
    v1: Option<&Part<'_>>,
    order: Option<&Template>,
) -> Result<(Checkpoint<P>, Option<Flaw>), Flaw> {
    check_claims((NAME, part))?;
    let source = source(part, trust, v1, order)?;
    let boot_id = source.boot_id.clone();
    let mut records = Records::read_from(source);
    let v1_claims = v1.map(Part::claims).unwrap_or_default();
    let v1_claims: BTreeMap<_, _> = v1_claims.iter().map(|c| (c.key, c.value)).collect();
    let mut flaw: Option<Flaw> = None;
    for claim in part.claims() {
        let read = parse_uid(NAME, claim.key).and_then(|uid| {
            let record = claim::read_v2(claim.value);
            let (object, record) = record.map_err(|flaw| Flaw::in_record(&uid, &flaw))?;
            check_state(&record).map_err(|flaw| Flaw::in_record(&uid, &flaw))?;
            Ok((uid, object, record))
        });
        match read {
            Ok((uid, object, record)) => {
                let v1 = v1_claims.get(claim.key).copied();
                let carry = || claim::unchanged_text(&uid, &record, (claim.value, &object), v1);
                let text = (trust == Trust::Text).then(carry).flatten();
                records.insert_read(uid, record, text);
            }
            Err(bad) => flaw = flaw.or(Some(bad)),
        }
    }
    Ok((Checkpoint { records, boot_id }, flaw))
}

// req: CKPT-19
fn check_state<P: Payload>(record: &ClaimRecord<P>) -> Result<(), claim::Flaw> {
    if record.is_aborted() && !P::HAS_ABORTED {
        return Err(claim::Flaw::Aborted);
    }
    Ok(())
}

/// The rest of V2, without the claims.
fn source(
    part: &Part<'_>,
    trust: Trust,
    v1: Option<&Part<'_>>,
    order: Option<&Template>,
) -> Result<Source, Flaw> {
    let canonical = Source::default();
    let boot_id = part.members.get("nodeBootID");
    let boot_id = boot_id.map_or(Ok(None), serde_json::from_str);
    let boot_id: Option<String> =
        boot_id.map_err(|error| Flaw::in_member("v2.nodeBootID", &claim::message(&error)))?;
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
