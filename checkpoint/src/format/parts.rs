//! The parts of the file as serde sees them. Field order is the file's.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::record::{ClaimRecord, State};
use crate::status::{ClaimStatus, Seconds, optional_seconds};

pub(super) const STARTED: &str = "PrepareStarted";
pub(super) const COMPLETED: &str = "PrepareCompleted";
pub(super) const ABORTED: &str = "PrepareAborted";

/// `{"checksum":…,"v1":…,"v2":…}`; unknown keys are outside both checksums.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    pub(super) checksum: u64,
    pub(super) v1: Option<&'a RawValue>,
    pub(super) v2: Option<&'a RawValue>,
    pub(super) has_unknown_key: bool,
}

/// The V1 part, `C` being its claims' layout.
#[derive(Deserialize)]
pub(super) struct V1<C> {
    #[serde(rename = "preparedClaims")]
    pub(super) claims: Option<BTreeMap<String, C>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "P: Deserialize<'de>"))]
pub(super) struct ClaimV1<P> {
    pub(super) status: Option<ClaimStatus>,
    #[serde(rename = "preparedDevices")]
    pub(super) devices: Option<Vec<P>>,
}

/// A claim as 25.3.0-rc.2 wrote it: its devices and nothing else.
pub(super) type ClaimLegacy = Vec<Box<RawValue>>;

#[derive(Deserialize)]
#[serde(bound(deserialize = "P: Deserialize<'de>"))]
pub(super) struct V2<P> {
    #[serde(rename = "preparedClaims")]
    pub(super) claims: Option<BTreeMap<String, ClaimV2<P>>>,
    #[serde(rename = "nodeBootID")]
    pub(super) boot_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "P: Deserialize<'de>"))]
pub(super) struct ClaimV2<P> {
    #[serde(rename = "checkpointState")]
    pub(super) state: Option<String>,
    pub(super) status: Option<ClaimStatus>,
    #[serde(rename = "preparedDevices")]
    pub(super) devices: Option<Vec<P>>,
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    #[serde(default, deserialize_with = "optional_seconds")]
    pub(super) aborted_at: Option<Seconds>,
}

/// What V1 keeps of a completed claim.
#[derive(Serialize)]
pub(super) struct ClaimV1Ref<'a, P> {
    status: &'a ClaimStatus,
    #[serde(rename = "preparedDevices", skip_serializing_if = "<[P]>::is_empty")]
    devices: &'a [P],
}

#[derive(Serialize)]
pub(super) struct ClaimV2Ref<'a, P> {
    #[serde(rename = "checkpointState")]
    state: &'static str,
    status: &'a ClaimStatus,
    #[serde(rename = "preparedDevices", skip_serializing_if = "<[P]>::is_empty")]
    devices: &'a [P],
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(rename = "abortedAt", skip_serializing_if = "Option::is_none")]
    aborted_at: Option<Seconds>,
}

/// The members of an object in the order of the text, values as text.
pub(super) struct Members<'a>(pub(super) Vec<(String, &'a RawValue)>);

// === impl Envelope ===

impl<'a> Envelope<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, serde_json::Error> {
        let members: Members<'a> = serde_json::from_slice(bytes)?;
        let mut envelope = Self::default();
        for (key, value) in members.0 {
            match key.as_str() {
                "checksum" => envelope.checksum = serde_json::from_str(value.get())?,
                "v1" => envelope.v1 = Some(value).filter(|v| v.get() != "null"),
                "v2" => envelope.v2 = Some(value).filter(|v| v.get() != "null"),
                _ => envelope.has_unknown_key = true,
            }
        }
        Ok(envelope)
    }
}

// === impl ClaimV1Ref ===

impl<'a, P> From<&'a ClaimRecord<P>> for ClaimV1Ref<'a, P> {
    fn from(record: &'a ClaimRecord<P>) -> Self {
        Self {
            status: &record.status,
            devices: record.devices(),
        }
    }
}

// === impl ClaimV2Ref ===

impl<'a, P> From<&'a ClaimRecord<P>> for ClaimV2Ref<'a, P> {
    fn from(record: &'a ClaimRecord<P>) -> Self {
        let (state, at): (_, Option<Timestamp>) = match record.state {
            State::Started => (STARTED, None),
            State::Completed(_) => (COMPLETED, None),
            State::Aborted { at } => (ABORTED, at),
        };
        Self {
            state,
            status: &record.status,
            devices: record.devices(),
            name: &record.name,
            namespace: &record.namespace,
            aborted_at: at.map(Seconds::floor),
        }
    }
}

// === impl Members ===

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
