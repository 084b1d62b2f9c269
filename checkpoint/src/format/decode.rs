//! Which parts can be trusted, and which of them counts.

mod v1;
mod v2;

use serde_json::value::RawValue;

use self::v2::Flawed;
use super::parts::{FILE, File, Part};
use super::template::Template;
use super::{Checkpoint, Damaged, claim, verify};
use crate::damage::{DamageReason, Detail, Mismatch, Survivors};
use crate::gojson;
use crate::record::Payload;

/// Why a part can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The checksum is that of its text: whoever wrote that, wrote all of it.
    Text,
    /// The checksum is that of what Go would write for it: someone laid it out
    /// anew, and may have added what no checksum covers.
    Content,
}

/// Why a part is not understood, or not wholly.
struct Flaw {
    reason: DamageReason,
    /// The first claim of which that is so.
    detail: Option<Box<Detail>>,
}

pub(super) fn decode<P: Payload>(bytes: &[u8]) -> Result<Checkpoint<P>, Damaged<P>> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(lost(DamageReason::Empty));
    }
    let mut file = File::scan(bytes);
    // Behind a good V1 the scan has come to where V2 is, or is broken.
    if !file.is_whole && verify::v1_text(&file).is_err() {
        file.find_v2(bytes);
    }
    let mut as_it_is = read(&file);
    if is_laid_out_by_go(bytes) {
        return as_it_is.map_err(|damaged| with_reason(damaged, bytes));
    }
    // Go writes anew what it read, and hashes that: so does whoever carries it.
    let as_go_writes = compact(bytes).map(|text| read(&File::scan(text.as_bytes())));
    match &mut as_it_is {
        Ok(checkpoint) => checkpoint.records.forget_text(),
        Err(damaged) => damaged.saved.records.forget_text(),
    }
    match (as_it_is, as_go_writes) {
        (_, Some(Ok(checkpoint))) | (Ok(checkpoint), _) => Ok(checkpoint),
        (Err(damaged), Some(Err(mut other))) if other.survivors > damaged.survivors => {
            // What is no JSON may be laid out in another way even so.
            other.saved.records.forget_text();
            Err(with_reason(other, bytes))
        }
        (Err(damaged), _) => Err(with_reason(damaged, bytes)),
    }
}

fn with_reason<P: Payload>(mut damaged: Damaged<P>, bytes: &[u8]) -> Damaged<P> {
    if let Some(detail) = Detail::not_json(bytes) {
        damaged.reason = DamageReason::NotJson;
        damaged.detail = Some(Box::new(detail));
    }
    damaged.saved.records.forget_members_of_file();
    damaged
}

/// Whether Go would write the same text for the same JSON, as far as it is JSON.
/// A quick look settles it for what Go writes, where white space is rare.
fn is_laid_out_by_go(bytes: &[u8]) -> bool {
    // 0xe2 begins U+2028 and U+2029.
    let may_differ =
        |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2) || byte.is_ascii_whitespace();
    // Where quotes do not pair, nobody can tell what is in a string.
    let is_compact = |text: &RawValue| gojson::compact(text.get()).as_bytes() == bytes;
    !bytes.iter().any(may_differ) || serde_json::from_slice(bytes).is_ok_and(is_compact)
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

/// V2 can be trusted, what is around it cannot.
fn saved_by_v2<P>(reason: DamageReason, saved: Checkpoint<P>) -> Damaged<P> {
    Damaged {
        survivors: Survivors::All,
        saved,
        boot_id_is_lost: false,
        ..lost(reason)
    }
}

/// V2 counts; V1 saves the completed claims when V2 is bad. V1's content is
/// never compared with V2's, only its checksum matters, as in Go.
fn read<P: Payload>(file: &File<'_>) -> Result<Checkpoint<P>, Damaged<P>> {
    let order = Template::of(&FILE, &file.members).filter(|_| file.is_whole);
    let Some(part) = &file.v2 else {
        let v1 = v1::trust::<P>(file, verify::v1_text(file));
        return without_v2(file, v1, order);
    };
    let texts = verify::texts(file, part);
    let v1 = v1::trust::<P>(file, texts.v1);
    let read = v2::read(file, part, texts.v2, v1.ok(), order.as_ref());
    match (v1, read) {
        (Ok(_), Ok(checkpoint)) if order.is_some() => Ok(checkpoint),
        (Ok(_), Ok(saved)) => Err(saved_by_v2(DamageReason::Layout, saved)),
        (Err(mismatch), Ok(saved)) => Err(Damaged {
            // V1 may have another name now, or be broken.
            mismatches: Vec::from_iter(file.v1.as_ref().map(|_| mismatch)),
            ..saved_by_v2(DamageReason::V1Checksum, saved)
        }),
        (v1, Err(flawed)) => Err(without_good_v2(file, v1, flawed)),
    }
}

fn without_good_v2<P: Payload>(
    file: &File<'_>,
    v1: Result<Trust, Mismatch>,
    v2: Flawed<P>,
) -> Damaged<P> {
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
    let reason = match (v1, v2.flaw.reason) {
        (Err(_), DamageReason::V2Checksum) if file.v1.is_some() => DamageReason::BothChecksums,
        (_, reason) => reason,
    };
    Damaged {
        reason,
        detail: v2.flaw.detail,
        mismatches: v1.err().into_iter().chain(v2.mismatch).collect(),
        survivors,
        saved,
        boot_id_is_lost,
    }
}

fn without_v2<P: Payload>(
    file: &File<'_>,
    v1: Result<Trust, Mismatch>,
    order: Option<Template>,
) -> Result<Checkpoint<P>, Damaged<P>> {
    let is_v1_file = order.is_some() && !file.claims_v2();
    let read = match v1 {
        Ok(trust) => v1::upgrade(file, trust, order),
        Err(_) if is_v1_file => Err(DamageReason::V1Checksum.into()),
        Err(_) => Err(DamageReason::Layout.into()),
    };
    let mut damaged = match read {
        Ok(checkpoint) if is_v1_file => return Ok(checkpoint),
        Ok(saved) => Damaged {
            survivors: Survivors::Some,
            saved,
            ..lost(DamageReason::Layout)
        },
        Err(flaw) => lost(flaw),
    };
    if file.v1.is_some() || is_v1_file {
        damaged.mismatches.extend(v1.err());
    }
    Err(damaged)
}

/// Foreign members stay if the checksum is over them.
fn order_of(names: &[&str], part: &Part<'_>, trust: Trust) -> Result<Template, DamageReason> {
    let read = Template::of(names, &part.object.members).ok_or(DamageReason::Layout)?;
    Ok(match trust {
        Trust::Text => read,
        Trust::Content => Template::canonical(names.len()),
    })
}

/// In Go null is no claims; anything but an object is an error.
fn has_claims(part: &Part<'_>) -> Result<(), DamageReason> {
    match part.get("preparedClaims") {
        Some(claims) if !claims.starts_with(b"{") && claims != b"null" => Err(DamageReason::Layout),
        _ => Ok(()),
    }
}

// === impl Flaw ===

impl From<DamageReason> for Flaw {
    fn from(reason: DamageReason) -> Self {
        Self {
            reason,
            detail: None,
        }
    }
}

impl Flaw {
    fn of_record(uid: String, flaw: claim::Flaw) -> Self {
        let (reason, detail) = flaw.of(uid);
        Self {
            reason,
            detail: Some(Box::new(detail)),
        }
    }
}
