//! Which parts can be trusted, and which of them is used.

mod flaw;
mod part;
mod v1;
mod v2;

use serde_json::value::RawValue;

use self::flaw::Flaw;
use self::part::Trust;
use self::v2::Flawed;
use super::checkpoint::Checkpoint;
use super::error::Damaged;
use super::parts::{FILE, File};
use super::template::Template;
use super::verify;
use crate::damage::{DamageReason, Detail, Mismatch, Survivors};
use crate::record::Payload;
use dra_claim::gojson;

// req: CKPT-3
pub(super) fn decode<P: Payload>(bytes: &[u8]) -> Result<Checkpoint<P>, Damaged<P>> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(lost(DamageReason::Empty));
    }
    let mut file = File::scan(bytes);
    // If V1 is intact, the scan has reached V2, or the place where it is broken.
    if !file.is_whole && verify::v1_text(&file).is_err() {
        file.find_v2(bytes);
    }
    let mut as_it_is = read(&file);
    if is_laid_out_by_go(bytes) {
        return as_it_is.map_err(|damaged| with_reason(damaged, bytes));
    }
    // Go verifies the checksum of the text that it would write.
    let as_go_writes = compact(bytes).map(|text| read(&File::scan(text.as_bytes())));
    match &mut as_it_is {
        Ok(checkpoint) => checkpoint.records.drop_cached_text(),
        Err(damaged) => damaged.saved.records.drop_cached_text(),
    }
    match (as_it_is, as_go_writes) {
        (_, Some(Ok(checkpoint))) | (Ok(checkpoint), _) => Ok(checkpoint),
        (Err(damaged), Some(Err(mut other))) if kept(&other) > kept(&damaged) => {
            // Text that is not JSON may be formatted in another way even so.
            other.saved.records.drop_cached_text();
            Err(with_reason(other, bytes))
        }
        (Err(damaged), _) => Err(with_reason(damaged, bytes)),
    }
}

/// How much there is left, to compare two readings of one file.
fn kept<P: Payload>(damaged: &Damaged<P>) -> impl Ord + use<P> {
    let claims = damaged.saved.claims().count();
    (damaged.survivors, claims, !damaged.boot_id_is_lost)
}

fn with_reason<P: Payload>(mut damaged: Damaged<P>, bytes: &[u8]) -> Damaged<P> {
    if let Some(detail) = Detail::not_json(bytes) {
        damaged.reason = DamageReason::NotJson;
        damaged.detail = Some(Box::new(detail));
    }
    damaged.saved.records.drop_unknown_members();
    damaged
}

/// Whether Go would write the same text for the same JSON, as far as it is JSON.
/// For what Go wrote, where whitespace is rare, the first scan decides.
fn is_laid_out_by_go(bytes: &[u8]) -> bool {
    // 0xe2 begins U+2028 and U+2029.
    let may_differ =
        |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2) || byte.is_ascii_whitespace();
    // Without an early exit the inner loop is vectorized.
    let may_one_differ = |chunk: &[u8]| chunk.iter().fold(false, |any, b| any | may_differ(b));
    // In text that is not JSON, strings have no certain end.
    let is_compact = |text: &RawValue| gojson::compact(text.get()).as_bytes() == bytes;
    !bytes.chunks(64).any(may_one_differ) || serde_json::from_slice(bytes).is_ok_and(is_compact)
}

/// The text as Go lays it out.
fn compact(bytes: &[u8]) -> Option<String> {
    str::from_utf8(bytes).ok().map(gojson::compact)
}

fn lost<P>(flaw: impl Into<Flaw>) -> Damaged<P> {
    let Flaw { reason, detail } = flaw.into();
    Damaged {
        reason,
        detail,
        mismatches: Vec::new(),
        survivors: Survivors::None,
        saved: Checkpoint::empty(),
        boot_id_is_lost: true,
    }
}

/// V2 can be trusted, the rest of the file cannot.
fn saved_by_v2<P>(flaw: Flaw, saved: Checkpoint<P>) -> Damaged<P> {
    Damaged {
        survivors: Survivors::All,
        saved,
        boot_id_is_lost: false,
        ..lost(flaw)
    }
}

/// V2 is used; if it is damaged, the completed claims are recovered from V1.
/// V1's content is never compared with V2's, only its checksum matters, as in Go.
fn read<P: Payload>(file: &File<'_>) -> Result<Checkpoint<P>, Damaged<P>> {
    let order = file_order(file);
    let Some(part) = &file.v2 else {
        let v1 = v1::trust::<P>(file, verify::v1_text(file));
        return without_v2(file, v1, order);
    };
    let texts = verify::texts(file, part);
    let v1 = v1::trust::<P>(file, texts.v1);
    let read = v2::read(file, part, texts.v2, v1.ok(), order.as_ref().ok());
    match (v1, read, order) {
        (Ok(_), Ok(checkpoint), Ok(_)) => Ok(checkpoint),
        (Ok(_), Ok(saved), Err(flaw)) => Err(saved_by_v2(flaw, saved)),
        (Err(mismatch), Ok(saved), order) => Err(Damaged {
            mismatches: mismatch_of(file, mismatch).collect(),
            ..saved_by_v2(Flaw::in_v1(file, order.err()), saved)
        }),
        (v1, Err(flawed), order) => Err(without_good_v2(file, v1, flawed, order.err())),
    }
}

/// V1's mismatch, if there is a V1: it may be misnamed or broken.
fn mismatch_of(file: &File<'_>, v1: Mismatch) -> impl Iterator<Item = Mismatch> {
    file.v1.iter().map(move |_| v1)
}

fn without_good_v2<P: Payload>(
    file: &File<'_>,
    v1: Result<Trust, Mismatch>,
    v2: Flawed<P>,
    order: Option<Flaw>,
) -> Damaged<P> {
    let v1_flaw = v1.err().map(|_| Flaw::in_v1(file, order));
    let upgraded = v1
        .ok()
        .and_then(|trust| v1::upgrade(file, trust, None).ok());
    let survivors = match (&v2.saved, &upgraded) {
        (None, None) => Survivors::None,
        _ => Survivors::Some,
    };
    let boot_id_is_lost = v2.saved.is_none();
    let mut saved = v2.saved.unwrap_or_else(Checkpoint::empty);
    if let Some(upgraded) = upgraded {
        saved.add_missing(upgraded);
    }
    let reason = match (v1_flaw.as_ref().map(|flaw| flaw.reason), v2.flaw.reason) {
        (Some(DamageReason::V1Checksum), DamageReason::V2Checksum) => DamageReason::BothChecksums,
        (_, reason) => reason,
    };
    let v1_mismatch = v1.err().into_iter().flat_map(|v1| mismatch_of(file, v1));
    Damaged {
        reason,
        detail: (v2.flaw.detail).or_else(|| v1_flaw.and_then(|flaw| flaw.detail)),
        mismatches: v1_mismatch.chain(v2.mismatch).collect(),
        survivors,
        saved,
        boot_id_is_lost,
    }
}

fn without_v2<P: Payload>(
    file: &File<'_>,
    v1: Result<Trust, Mismatch>,
    order: Result<Template, Flaw>,
) -> Result<Checkpoint<P>, Damaged<P>> {
    let (order, flaw) = match order {
        Ok(order) => (Some(order), file.may_have_v2().then(|| Flaw::in_v2(file))),
        Err(flaw) => (None, Some(flaw)),
    };
    let mut damaged = match (v1, flaw) {
        (Ok(trust), flaw) => match (v1::upgrade(file, trust, order), flaw) {
            (Ok(checkpoint), None) => return Ok(checkpoint),
            (Ok(saved), Some(flaw)) => Damaged {
                survivors: Survivors::Some,
                saved,
                ..lost(flaw)
            },
            (Err(of_v1), flaw) => lost(flaw.unwrap_or(of_v1)),
        },
        (Err(_), flaw) => lost(Flaw::in_v1(file, flaw)),
    };
    let mismatch = v1.err().into_iter().flat_map(|v1| mismatch_of(file, v1));
    damaged.mismatches.extend(mismatch);
    Err(damaged)
}

/// The file's members at their places.
fn file_order(file: &File<'_>) -> Result<Template, Flaw> {
    if !file.is_whole {
        // Of JSON, the scan follows every object.
        return Err(Flaw::in_file("it is not an object"));
    }
    Template::from_members(&FILE, &file.members)
        .map_err(|misplaced| Flaw::misplaced(None, &misplaced))
}
