//! One claim: decodes its record from the file's text, and encodes it.

use std::slice;

use dra_claim::{ClaimStatus, MetaTime, gojson, optional_time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::EncodeError;
use super::object::Object;
use super::parts::{CLAIM_V1, CLAIM_V2};
use super::records::ClaimText;
use super::template::{ForbiddenMember, Template};
use crate::damage::DamageReason;
use crate::gofields;
use crate::record::{ABORTED, COMPLETED, ClaimRecord, Payload, STARTED, State};

/// A completed claim in V1.
#[derive(Serialize)]
struct ClaimV1<'a, P> {
    status: &'a ClaimStatus,
    #[serde(rename = "preparedDevices", skip_serializing_if = "<[P]>::is_empty")]
    devices: &'a [P],
}

#[derive(Serialize)]
struct ClaimV2<'a, P> {
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
    aborted_at: Option<MetaTime>,
}

/// Why a record cannot be read.
pub(super) enum Flaw {
    /// Its state has this unknown name.
    State(String),
    /// It is aborted, and the driver has no aborted records in this file.
    Aborted,
    /// It is not a record, for this reason.
    Layout(String),
}

// === impl Flaw ===

impl Flaw {
    pub(super) fn reason(&self) -> DamageReason {
        match self {
            Self::State(_) => DamageReason::UnknownState,
            Self::Aborted => DamageReason::AbortedState,
            Self::Layout(_) => DamageReason::Layout,
        }
    }

    /// The message for the claim with this UID.
    pub(super) fn of(&self, uid: &str) -> String {
        let uid = uid.escape_debug();
        match self {
            Self::State(state) => format!("claim {uid} is in the unknown state {state:?}"),
            Self::Aborted => format!("claim {uid} is in the state {ABORTED:?}"),
            Self::Layout(flaw) => format!("invalid record of claim {uid}: {flaw}"),
        }
    }

    /// For a record of the wrong JSON type.
    pub(super) fn shape(expected: &str) -> Self {
        Self::Layout(format!("not {expected}"))
    }

    fn member(name: &str, error: &serde_json::Error) -> Self {
        Self::Layout(format!("{name}: {}", message(error)))
    }
}

impl From<ForbiddenMember> for Flaw {
    fn from(misplaced: ForbiddenMember) -> Self {
        let name = misplaced.name.escape_debug();
        Self::Layout(format!("{name}: {}", misplaced.flaw()))
    }
}

/// The parser's message without line and column: they count from the beginning of
/// the value, not of the file.
pub(super) fn message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&place).unwrap_or(&message).to_owned()
}

// === records from text ===

/// Reads a claim of V2.
// req: CKPT-12
pub(super) fn read_v2<P: Payload>(text: &str) -> Result<(Object<'_>, ClaimRecord<P>), Flaw> {
    let object = Object::parse(text).ok_or_else(|| Flaw::shape("an object"))?;
    Template::from_members(&CLAIM_V2, &object.0)?;
    let state: String = member(&object, "checkpointState")?;
    let state = match state.as_str() {
        STARTED => State::Started,
        COMPLETED => State::Completed(devices(&object)?),
        ABORTED => State::Aborted {
            at: aborted_at(&object)?.map(MetaTime::timestamp),
        },
        _ => return Err(Flaw::State(state)),
    };
    let record = ClaimRecord {
        state,
        status: member(&object, "status")?,
        name: member(&object, "name")?,
        namespace: member(&object, "namespace")?,
    };
    Ok((object, record))
}

/// Reads a claim of V1: it is completed and has no names.
pub(super) fn read_v1<P: Payload>(object: &Object<'_>) -> Result<ClaimRecord<P>, Flaw> {
    Template::from_members(&CLAIM_V1, &object.0)?;
    Ok(ClaimRecord {
        state: State::Completed(devices(object)?),
        status: member(object, "status")?,
        name: String::new(),
        namespace: String::new(),
    })
}

/// Reads a claim of 25.3.0-rc.2: its devices and nothing else.
pub(super) fn read_rc2<P: Payload>(list: &str) -> Result<ClaimRecord<P>, Flaw> {
    let flaw = |error| Flaw::member("device", &error);
    let devices: Vec<&RawValue> = serde_json::from_str(list).map_err(flaw)?;
    let read = devices.iter().map(|text| P::from_legacy(text.get()));
    let devices: Result<Vec<P>, _> = read.collect();
    Ok(ClaimRecord {
        state: State::Completed(devices.map_err(flaw)?),
        status: ClaimStatus::default(),
        name: String::new(),
        namespace: String::new(),
    })
}

/// Reads a member. As in Go, one that is absent or null gives the default.
fn member<T: Default + DeserializeOwned>(object: &Object<'_>, key: &str) -> Result<T, Flaw> {
    member_by(object, key, serde_json::from_str)
}

fn devices<P: Payload>(object: &Object<'_>) -> Result<Vec<P>, Flaw> {
    member_by(object, "preparedDevices", gofields::from_go_json)
}

fn aborted_at(object: &Object<'_>) -> Result<Option<MetaTime>, Flaw> {
    member_by(object, "abortedAt", |text| {
        optional_time(&mut serde_json::Deserializer::from_str(text)).map(Some)
    })
}

fn member_by<'a, T: Default>(
    object: &Object<'a>,
    key: &str,
    read: impl Fn(&'a str) -> serde_json::Result<Option<T>>,
) -> Result<T, Flaw> {
    let text = object.get(key);
    let value = text.map_or(Ok(None), read);
    let value = value.map_err(|error| Flaw::member(key, &error))?;
    Ok(value.unwrap_or_default())
}

// === text from records ===

/// The text of a record with Go's fields only.
pub(super) fn encode<P: Payload>(
    uid: &str,
    record: &ClaimRecord<P>,
) -> Result<ClaimText, serde_json::Error> {
    let aborted_at = match record.state {
        State::Aborted { at } => at.map(MetaTime::from_timestamp),
        State::Started | State::Completed(_) => None,
    };
    let (status, devices) = (&record.status, record.devices());
    let v1 = match record.state {
        State::Completed(_) => Some(gojson::to_string(&ClaimV1 { status, devices })?),
        State::Started | State::Aborted { .. } => None,
    };
    let v2 = gojson::to_string(&ClaimV2 {
        state: record.state.name(),
        status,
        devices,
        name: &record.name,
        namespace: &record.namespace,
        aborted_at,
    })?;
    let v1 = v1.as_deref().map(|v1| [v1]);
    ClaimText::new(uid, v1.as_ref().map(<[&str; 1]>::as_slice), &[&v2])
}

/// Like [`encode`]; fails if the text cannot be read back.
pub(super) fn encode_checked<P: Payload>(
    uid: &str,
    record: &ClaimRecord<P>,
) -> Result<ClaimText, EncodeError> {
    let (text, _) = round_trip(uid, record)?;
    Ok(text)
}

/// A copy of the record, through its text.
pub(super) fn copy<P: Payload>(
    uid: &str,
    record: &ClaimRecord<P>,
) -> Result<ClaimRecord<P>, EncodeError> {
    let (_, copy) = round_trip(uid, record)?;
    Ok(copy)
}

fn round_trip<P: Payload>(
    uid: &str,
    record: &ClaimRecord<P>,
) -> Result<(ClaimText, ClaimRecord<P>), EncodeError> {
    let text = encode(uid, record).map_err(EncodeError::Unwritable)?;
    // V2's text includes everything in V1's.
    let member = format!("{{{}}}", text.v2);
    let value = Object::parse(&member).and_then(|object| Some(object.0.first()?.value));
    let read = read_v2(value.unwrap_or_default()).map_err(|flaw| EncodeError::Unreadable {
        detail: flaw.of(uid),
    })?;
    Ok((text, read.1))
}

// === text from text ===

/// The text of a claim of V2, as read. Its V1 gets V2's values and keeps its own
/// unknown members. `None` if the record has to be encoded.
pub(super) fn unchanged_text<P>(
    uid: &str,
    record: &ClaimRecord<P>,
    (v2, object): (&str, &Object<'_>),
    v1: Option<&str>,
) -> Option<ClaimText> {
    let template = match v1.and_then(Object::parse) {
        Some(v1) => Template::from_members(&CLAIM_V1, &v1.0).ok()?,
        None => Template::canonical(CLAIM_V1.len()),
    };
    let values = CLAIM_V1.map(|key| object.get(key));
    let values = values
        .each_ref()
        .map(|value| value.as_ref().map(slice::from_ref));
    let v1 = record
        .is_completed()
        .then(|| template.write(&CLAIM_V1, &values));
    ClaimText::new(uid, v1.as_deref(), &[v2]).ok()
}

/// The text of a claim of V1, as read, and a V2 with the same values. `None` if the
/// record has to be encoded.
pub(super) fn upgraded(uid: &str, v1: &str, object: &Object<'_>) -> Option<ClaimText> {
    let is_v1s = |name: &&str| CLAIM_V1.contains(name);
    let others = CLAIM_V2.iter().filter(|name| !is_v1s(name));
    // An unknown field of V1 must not become a known one of V2.
    let others: Vec<&'static str> = others.copied().collect();
    let named = |name: &&str| object.get(name).is_some();
    if others.iter().any(named) || Template::from_members(&others, &object.0).is_err() {
        return None;
    }
    object.get("status")?;
    let members = v1.strip_prefix('{')?;
    let v2 = format!(r#"{{"checkpointState":"{COMPLETED}",{members}"#);
    ClaimText::new(uid, Some(&[v1]), &[&v2]).ok()
}

impl ClaimText {
    /// The text of a claim with the value `v1` in V1 and `v2` in V2, each in pieces.
    fn new(uid: &str, v1: Option<&[&str]>, v2: &[&str]) -> Result<Self, serde_json::Error> {
        let key = gojson::to_string(uid)? + ":";
        let member = |value: &[&str]| {
            let length = value.iter().map(|piece| piece.len()).sum::<usize>();
            let mut member = String::with_capacity(key.len() + length);
            member.push_str(&key);
            member.extend(value.iter().copied());
            member.into_boxed_str()
        };
        Ok(Self {
            v1: v1.map(member),
            v2: member(v2),
        })
    }
}
