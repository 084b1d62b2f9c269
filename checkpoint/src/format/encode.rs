//! Encodes the file as a list of text pieces. They are hashed in place and copied
//! only once, into the file.

use super::claim;
use super::parts::{FILE, V1, V2};
use super::records::{ClaimText, Records, Source};
use super::verify;
use crate::record::Payload;
use dra_claim::gojson;

// req: CKPT-2
pub(super) fn encode<P: Payload>(
    records: &Records<P>,
    boot_id: Option<&str>,
) -> Result<Vec<u8>, serde_json::Error> {
    let Source {
        layout: _,
        boot_id: read_boot_id,
        file,
        v1: _,
        v2: _,
    } = records.source();
    let v1 = PartV1::new(records)?;
    let v2 = PartV2::new(records, boot_id)?;
    let v1 = v1.pieces();
    let checksums = verify::checksums_of(&v1, &v2.zeroed());
    let [outer, inner] = checksums.map(|checksum| checksum.to_string());
    let v2 = v2.pieces(&inner);
    let mut order = file.clone();
    if records.is_changed() || boot_id != read_boot_id.as_deref() {
        order.retain(|key| !is_part(key));
    }
    let members: [Option<&[&str]>; 3] = [Some(&[&outer]), Some(&v1), Some(&v2)];
    Ok(order.write(&FILE, &members).concat().into_bytes())
}

/// V1: a redundant copy of the completed claims, for readers of 25.3.x.
pub(super) struct PartV1<'a> {
    source: &'a Source,
    claims: Vec<&'a str>,
}

/// V2 without its checksum.
pub(super) struct PartV2<'a> {
    source: &'a Source,
    claims: Vec<&'a str>,
    boot_id: Option<String>,
}

/// A JSON object in pieces; no pieces without members.
fn map<'a>(members: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    for member in members {
        let bracket_or_comma = if pieces.is_empty() { "{" } else { "," };
        pieces.extend([bracket_or_comma, member]);
    }
    if !pieces.is_empty() {
        pieces.push("}");
    }
    pieces
}

fn unless_empty<'a, 'b>(pieces: &'b [&'a str]) -> Option<&'b [&'a str]> {
    (!pieces.is_empty()).then_some(pieces)
}

/// Whether a key (a JSON string) names a part of the file: `v` and a number.
fn is_part(key: &str) -> bool {
    let number = key.strip_prefix("\"v").and_then(|k| k.strip_suffix('"'));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
}

// === impl PartV1 ===

impl<'a> PartV1<'a> {
    pub(super) fn new<P: Payload>(records: &'a Records<P>) -> Result<Self, serde_json::Error> {
        let texts = records.texts(claim::encode)?;
        Ok(Self {
            source: records.source(),
            claims: map(texts.filter_map(|text: &ClaimText| text.v1.as_deref())),
        })
    }

    pub(super) fn pieces(&self) -> Vec<&str> {
        self.source.v1.write(&V1, &[unless_empty(&self.claims)])
    }
}

// === impl PartV2 ===

impl<'a> PartV2<'a> {
    pub(super) fn new<P: Payload>(
        records: &'a Records<P>,
        boot_id: Option<&str>,
    ) -> Result<Self, serde_json::Error> {
        let texts = records.texts(claim::encode)?;
        Ok(Self {
            source: records.source(),
            claims: map(texts.map(|text| text.v2.as_ref())),
            boot_id: boot_id.map(gojson::to_string).transpose()?,
        })
    }

    /// The text that V2's checksum covers.
    pub(super) fn zeroed(&self) -> Vec<&str> {
        self.pieces("0")
    }

    fn pieces<'b>(&'b self, checksum: &'b str) -> Vec<&'b str> {
        let boot_id = self.boot_id.as_deref();
        let members: [Option<&[&str]>; 3] = [
            Some(&[checksum]),
            unless_empty(&self.claims),
            boot_id.as_ref().map(std::slice::from_ref),
        ];
        self.source.v2.write(&V2, &members)
    }
}
