use std::fmt::Write as _;

use super::claim;
use super::parts::{FILE, V1, V2};
use super::records::{ClaimText, Records, Source};
use super::verify::{v1_checksum, v2_checksum};
use crate::gojson;
use crate::record::Payload;

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
    let v1 = v1_part(records)?;
    let outer = v1_checksum(Some(v1.as_bytes())).to_string();
    let v2 = v2_part(records, boot_id)?.with_checksum();
    let mut order = file.clone();
    if records.have_changed() || boot_id != read_boot_id.as_deref() {
        order.retain(|key| !is_part(key));
    }
    let members = [Some(outer.as_str()), Some(&v1), Some(&v2)];
    Ok(order.write(&FILE, &members).into_bytes())
}

/// V1 is redundant: the completed claims, for readers of 25.3.x.
pub(super) fn v1_part<P: Payload>(records: &Records<P>) -> Result<String, serde_json::Error> {
    let texts = records.texts(claim::text)?;
    let in_v1 = texts
        .iter()
        .filter_map(|(uid, text): &(_, &ClaimText)| Some((*uid, text.v1.as_deref()?)));
    let claims = map(in_v1)?;
    Ok(records.source().v1.write(&V1, &[claims.as_deref()]))
}

pub(super) fn v2_part<'a, P: Payload>(
    records: &'a Records<P>,
    boot_id: Option<&str>,
) -> Result<PartV2<'a>, serde_json::Error> {
    let texts = records.texts(claim::text)?;
    Ok(PartV2 {
        source: records.source(),
        claims: map(texts.iter().map(|(uid, text)| (*uid, text.v2.as_ref())))?,
        boot_id: boot_id.map(gojson::to_string).transpose()?,
    })
}

/// V2 but for its checksum.
pub(super) struct PartV2<'a> {
    source: &'a Source,
    claims: Option<String>,
    boot_id: Option<String>,
}

/// Room for a member's punctuation.
const SPARE: usize = 4;

/// A JSON object; none if it would be empty.
fn map<'a>(
    members: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> Result<Option<String>, serde_json::Error> {
    let sizes = members
        .clone()
        .map(|(key, value)| key.len() + value.len() + SPARE);
    let mut out = String::with_capacity(sizes.sum());
    for (key, value) in members {
        let bracket_or_comma = if out.is_empty() { '{' } else { ',' };
        let key = gojson::to_string(key)?;
        // Writing to a String cannot fail.
        let _ = write!(out, "{bracket_or_comma}{key}:{value}");
    }
    Ok((!out.is_empty()).then(|| out + "}"))
}

/// Whether a key (a JSON string) names a part of the file: `v` and a number.
fn is_part(key: &str) -> bool {
    let number = key.strip_prefix("\"v").and_then(|k| k.strip_suffix('"'));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
}

// === impl PartV2 ===

impl PartV2<'_> {
    /// What its checksum is over.
    pub(super) fn zeroed(&self) -> String {
        self.write("0")
    }

    fn with_checksum(&self) -> String {
        self.write(&v2_checksum(self.zeroed().as_bytes()).to_string())
    }

    fn write(&self, checksum: &str) -> String {
        let members = [
            Some(checksum),
            self.claims.as_deref(),
            self.boot_id.as_deref(),
        ];
        self.source.v2.write(&V2, &members)
    }
}
