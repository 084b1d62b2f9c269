use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::parts::{ClaimV1Ref, ClaimV2Ref};
use crate::checksum::Checksum;
use crate::gojson;
use crate::record::{Payload, Records};

pub(super) fn encode<P: Payload>(
    records: &Records<P>,
    boot_id: Option<&str>,
) -> Result<Vec<u8>, serde_json::Error> {
    let v1 = v1_part(records)?;
    let v2 = v2_part(records, boot_id)?;
    let outer = outer_checksum(Some(&v1));
    let inner = Checksum::new().add(zeroed(&v2).as_bytes()).finish();
    let v2 = v2.with_checksum(inner);
    Ok(format!(r#"{{"checksum":{outer},"v1":{v1},"v2":{v2}}}"#).into_bytes())
}

/// The checksum that guards V1: over the file without its V2 and with the
/// checksum zeroed.
pub(super) fn outer_checksum(v1: Option<&str>) -> u64 {
    let sum = Checksum::new().add(br#"{"checksum":0"#);
    match v1 {
        Some(v1) => sum.add(br#","v1":"#).add(v1.as_bytes()),
        None => sum,
    }
    .add(b"}")
    .finish()
}

/// V1 is redundant: the completed claims, for readers of 25.3.x.
fn v1_part<P: Payload>(records: &Records<P>) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(bound(serialize = "P: Serialize"))]
    struct Part<'a, P> {
        #[serde(rename = "preparedClaims", skip_serializing_if = "BTreeMap::is_empty")]
        claims: BTreeMap<&'a str, ClaimV1Ref<'a, P>>,
    }
    let completed = records.iter().filter(|(_, record)| record.is_completed());
    let claims = completed.map(|(uid, record)| (uid.as_str(), Arc::as_ref(record).into()));
    gojson::to_string(&Part {
        claims: claims.collect(),
    })
}

fn v2_part<P: Payload>(
    records: &Records<P>,
    boot_id: Option<&str>,
) -> Result<BeforeChecksum, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(bound(serialize = "P: Serialize"))]
    struct Part<'a, P> {
        #[serde(rename = "preparedClaims", skip_serializing_if = "BTreeMap::is_empty")]
        claims: BTreeMap<&'a str, ClaimV2Ref<'a, P>>,
        #[serde(rename = "nodeBootID", skip_serializing_if = "Option::is_none")]
        boot_id: Option<&'a str>,
    }
    let claims = records
        .iter()
        .map(|(uid, record)| (uid.as_str(), Arc::as_ref(record).into()));
    gojson::to_string(&Part {
        claims: claims.collect(),
        boot_id,
    })
    .map(BeforeChecksum)
}

/// An object to which `checksum` is added as its first member.
struct BeforeChecksum(String);

impl BeforeChecksum {
    fn with_checksum(&self, checksum: u64) -> String {
        let members = self.0.strip_prefix('{').unwrap_or_default();
        let comma = if members == "}" { "" } else { "," };
        format!(r#"{{"checksum":{checksum}{comma}{members}"#)
    }
}

fn zeroed(part: &BeforeChecksum) -> String {
    part.with_checksum(0)
}
