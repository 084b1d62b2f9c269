//! Reading V1: the completed claims; in a file of 25.3.x, all there is.

use super::super::checkpoint::Checkpoint;
use super::super::claim;
use super::super::encode::PartV1;
use super::super::layout::Layout;
use super::super::parts::{Claim, Entry, File, Part, V1};
use super::super::records::{Records, Source};
use super::super::template::Template;
use super::super::verify;
use super::flaw::Flaw;
use super::part::{Trust, check_claims, parse_uid, part_order};
use crate::damage::Mismatch;
use crate::record::Payload;

const NAME: &str = "v1";

/// Why V1 can be trusted, if it can; `text` is whether its checksum matches its
/// text. A missing V1 has a checksum too.
pub(super) fn trust<P: Payload>(
    file: &File<'_>,
    text: Result<(), Mismatch>,
) -> Result<Trust, Mismatch> {
    let Err(mismatch) = text else {
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

/// Every claim of V1 is completed; its names and boot were not recorded.
pub(super) fn upgrade<P: Payload>(
    file: &File<'_>,
    trust: Trust,
    order: Option<Template>,
) -> Result<Checkpoint<P>, Flaw> {
    let none = Part::default();
    let part = match (&file.v1, file.v1_text()) {
        (Some(part), _) => part,
        (None, None) => &none,
        (None, Some(_)) => return Err(Flaw::in_member("v1", "it is not an object")),
    };
    check_claims((NAME, part))?;
    let is_rc2 = !part.claims.is_empty() && part.claims.iter().all(Claim::is_rc2);
    let canonical = Source::default();
    let mut records = Records::read_from(Source {
        layout: if is_rc2 { Layout::V1Rc2 } else { Layout::V1 },
        file: order.unwrap_or(canonical.file),
        v1: part_order((NAME, part), &V1, trust)?,
        ..canonical
    });
    for Claim { uid, entry } in &part.claims {
        let uid = parse_uid(NAME, uid)?;
        let (record, text) = match entry {
            Entry::Object(claim) => (
                claim::read_v1(claim),
                (trust == Trust::Text)
                    .then(|| claim::upgraded(&uid, claim))
                    .flatten(),
            ),
            Entry::Other(list) if is_rc2 => (claim::read_rc2(list), None),
            Entry::Other(_) => (Err(claim::Flaw::shape("an object")), None),
        };
        match record {
            Ok(record) => records.insert_read(uid, record, text),
            Err(flaw) => return Err(Flaw::in_record(uid, flaw)),
        }
    }
    Ok(Checkpoint {
        records,
        boot_id: None,
    })
}
