//! Reads V1: the completed claims, and the only part of a file of 25.3.x.

use super::super::checkpoint::Checkpoint;
use super::super::claim;
use super::super::encode::PartV1;
use super::super::layout::Layout;
use super::super::object::{Member, Object};
use super::super::parts::{File, Part, V1};
use super::super::records::{Records, Source};
use super::super::template::Template;
use super::super::verify;
use super::flaw::Flaw;
use super::part::{Trust, check_claims, parse_uid, part_order};
use crate::damage::Mismatch;
use crate::record::Payload;

const NAME: &str = "v1";

/// Why V1 can be trusted. `text_check` is the result of verifying the checksum of its text.
pub(super) fn trust<P: Payload>(
    file: &File<'_>,
    text_check: Result<(), Mismatch>,
) -> Result<Trust, Mismatch> {
    let Err(mismatch) = text_check else {
        return Ok(Trust::Text);
    };
    let present = file.v1.as_ref();
    let read = present.and_then(|_| upgrade::<P>(file, Trust::Content, None).ok());
    let is_as_written = read.is_some_and(|checkpoint| {
        PartV1::new(&checkpoint.records)
            .is_ok_and(|part| verify::v1_rewritten(file, &part.pieces()).is_ok())
    });
    if is_as_written {
        Ok(Trust::Content)
    } else {
        Err(mismatch)
    }
}

/// Reads V1 as a checkpoint: every claim is completed; names and boot id are unknown.
pub(super) fn upgrade<P: Payload>(
    file: &File<'_>,
    trust: Trust,
    order: Option<Template>,
) -> Result<Checkpoint<P>, Flaw> {
    let none = Part::default();
    let part = match (&file.v1, file.part_text(NAME)) {
        (Some(part), _) => part,
        (None, None) => &none,
        (None, Some(_)) => return Err(Flaw::in_member(NAME, "not an object")),
    };
    check_claims((NAME, part))?;
    let is_list = |claim: &Member<'_>| claim.value.starts_with('[');
    let claims = part.claims();
    let is_rc2 = !claims.is_empty() && claims.iter().all(is_list);
    let canonical = Source::default();
    let mut records = Records::read_from(Source {
        layout: if is_rc2 { Layout::V1Rc2 } else { Layout::V1 },
        file: order.unwrap_or(canonical.file),
        v1: part_order((NAME, part), &V1, trust)?,
        ..canonical
    });
    for claim in claims {
        let uid = parse_uid(NAME, claim.key)?;
        let object = Object::parse(claim.value);
        let record = match &object {
            Some(object) => claim::read_v1(object),
            None if is_rc2 => claim::read_rc2(claim.value),
            None => Err(claim::Flaw::shape("an object")),
        };
        let record = record.map_err(|flaw| Flaw::in_record(&uid, &flaw))?;
        let text = object
            .filter(|_| trust == Trust::Text)
            .and_then(|object| claim::upgraded(&uid, claim.value, &object));
        records.insert_read(uid, record, text);
    }
    Ok(Checkpoint {
        records,
        boot_id: None,
    })
}
