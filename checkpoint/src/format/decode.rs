//! Decides which parts can be trusted, and reads them.
//!
//! In a damaged file, each part with a matching checksum is read, V2 before V1. A claim in such a
//! part holds its devices, even if its CDI spec and its object in the API server have been deleted.

mod flaw;
mod part;
mod v1;
mod v2;

use serde_json::value::RawValue;

use self::flaw::Flaw;
use self::part::Trust;
use self::v2::ReadV2;
use super::checkpoint::Checkpoint;
use super::error::Damaged;
use super::layout::Layout;
use super::parts::{FILE, File};
use super::template::Template;
use super::verify;
use crate::damage::{DamageReason, Survivors};
use crate::record::Payload;
use dra_claim::gojson;

// req: CKPT-3
pub(super) fn decode<P: Payload>(bytes: &[u8]) -> Result<Checkpoint<P>, Damaged<P>> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(unsaved(DamageReason::Empty));
    }
    let as_go_writes = str::from_utf8(bytes)
        .ok()
        .filter(|_| is_laid_out_by_go(bytes));
    // `File::parse` checks that the text is JSON.
    if let Some(file) = as_go_writes.and_then(File::parse) {
        return read(&file);
    }
    match serde_json::from_slice::<&RawValue>(bytes) {
        // Go's checksums are those of the text that Go writes for the same JSON.
        Ok(json) => read_text(&gojson::compact(json.get())),
        Err(error) => Err(Damaged {
            reason: DamageReason::NotJson,
            detail: Some(error.to_string()),
            ..read_whole_parts(&String::from_utf8_lossy(bytes))
        }),
    }
}

/// Whether the text is in Go's layout, provided that it is JSON.
fn is_laid_out_by_go(bytes: &[u8]) -> bool {
    // 0xe2 begins U+2028 and U+2029.
    let may_differ =
        |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2) || byte.is_ascii_whitespace();
    // Without an early exit the inner loop is vectorized.
    let may_one_differ = |chunk: &[u8]| chunk.iter().fold(false, |any, b| any | may_differ(b));
    !bytes.chunks(64).any(may_one_differ)
}

/// Reads the intact parts of a text that is not JSON.
fn read_whole_parts<P: Payload>(text: &str) -> Damaged<P> {
    /// Limits the time: each attempt may read to the text's end.
    const ATTEMPTS: usize = 16;

    let values = |name: &'static str| {
        let starts = text.match_indices(name).map(|(at, name)| at + name.len());
        starts.map_while(|at| text.get(at..)).take(ATTEMPTS)
    };
    let checksum = values(r#""checksum":"#).next().and_then(first_value);
    let v1 = values(r#""v1":"#).next().and_then(first_value);
    // Go writes V2 last. Text inside a claim that looks like V2 is followed by more brackets,
    // unless the file is cut exactly there.
    let v2 = values(r#""v2":"#).find_map(|text| {
        let (value, rest) = first_value(text)?;
        (rest.trim_ascii().len() <= 2).then_some((value, rest))
    });
    let found = FILE.into_iter().zip([checksum, v1, v2]);
    let found = found.filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?.0)));
    let file = format!("{{{}}}", found.collect::<Vec<_>>().join(","));
    match read_text(&gojson::compact(&file)) {
        Err(damaged) => damaged,
        Ok(saved) => {
            let is_v2 = !matches!(saved.layout(), Layout::V1 | Layout::V1Rc2);
            Damaged {
                survivors: if is_v2 {
                    Survivors::All
                } else {
                    Survivors::Some
                },
                boot_id_is_lost: !is_v2,
                saved,
                ..unsaved(DamageReason::NotJson)
            }
        }
    }
}

fn unsaved<P>(flaw: impl Into<Flaw>) -> Damaged<P> {
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

/// The value at the text's beginning, and the rest of the text.
fn first_value(text: &str) -> Option<(&str, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let value = values.next()?.ok()?;
    Some((value.get(), text.get(values.byte_offset()..)?))
}

fn read_text<P: Payload>(text: &str) -> Result<Checkpoint<P>, Damaged<P>> {
    let not_an_object = || unsaved(Flaw::in_member("the file", "not an object"));
    read(&File::parse(text).ok_or_else(not_an_object)?)
}

/// Reads V2. If it is damaged, completed claims that it lacks come from V1. As in
/// Go, only V1's checksum is checked; its content is never compared with V2's.
fn read<P: Payload>(file: &File<'_>) -> Result<Checkpoint<P>, Damaged<P>> {
    let order = Template::from_members(&FILE, &file.members.0);
    let (order, of_file) = match order {
        Ok(order) => (Some(order), None),
        Err(misplaced) => (None, Some(Flaw::misplaced("", &misplaced))),
    };
    let [v1_text, v2_text] = verify::texts(file);
    let v1 = v1::trust::<P>(file, v1_text);
    let trusted_v1 = file.v1.as_ref().filter(|_| v1 == Ok(Trust::Text));
    let v2 = file.v2.as_ref();
    let ReadV2 {
        saved,
        flaw: of_v2,
        mismatch,
    } = match v2 {
        Some(part) => v2::read(part, v2_text, trusted_v1, order.as_ref()),
        None => ReadV2 {
            saved: None,
            flaw: None,
            mismatch: None,
        },
    };
    let of_file = of_file.or_else(|| v2.is_none().then(|| Flaw::in_v2(file)).flatten());
    let mut of_v1 = v1.err().map(|_| Flaw::in_v1(file));

    let boot_id_is_lost = saved.is_none();
    let is_v2_whole = saved.is_some() && of_v2.is_none();
    let mut saved = saved;
    if let (false, Ok(trust)) = (is_v2_whole, v1) {
        match v1::upgrade(file, trust, order) {
            Ok(upgraded) => saved
                .get_or_insert_with(Checkpoint::empty)
                .add_missing(upgraded),
            Err(flaw) => of_v1 = Some(flaw),
        }
    }
    let reason_of = |flaw: &Option<Flaw>| flaw.as_ref().map(|flaw| flaw.reason);
    let are_both_wrong = of_file.is_none()
        && reason_of(&of_v1) == Some(DamageReason::V1Checksum)
        && reason_of(&of_v2) == Some(DamageReason::V2Checksum);
    let survivors = match &saved {
        Some(_) if is_v2_whole => Survivors::All,
        Some(_) => Survivors::Some,
        None => Survivors::None,
    };
    let mut saved = saved.unwrap_or_else(Checkpoint::empty);
    let Some(Flaw { reason, detail }) = of_v2.or(of_file).or(of_v1) else {
        return Ok(saved);
    };
    saved.records.drop_unknown_members();
    let v1_mismatch = v1.err().filter(|_| file.v1.is_some());
    Err(Damaged {
        reason: if are_both_wrong {
            DamageReason::BothChecksums
        } else {
            reason
        },
        detail,
        mismatches: v1_mismatch.into_iter().chain(mismatch).collect(),
        survivors,
        saved,
        boot_id_is_lost,
    })
}
