//! One claim: its record from the file's text, and its text from the record.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::parts::{CLAIM_V1, CLAIM_V2, Entry, get};
use super::records::ClaimText;
use super::scan::Object;
use super::template::Template;
use crate::damage::DamageReason;
use crate::gojson;
use crate::record::{ABORTED, COMPLETED, ClaimRecord, Payload, STARTED, State};
use crate::status::{ClaimStatus, Seconds, optional_seconds};

/// What V1 has of a completed claim.
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
    aborted_at: Option<Seconds>,
}

// === records from text ===

/// Reads a claim of V2.
pub(super) fn read_v2<P: Payload>(entry: &Entry<'_>) -> Result<ClaimRecord<P>, DamageReason> {
    let Entry::Object(object) = entry else {
        return Err(DamageReason::Layout);
    };
    Template::of(&CLAIM_V2, &object.members).ok_or(DamageReason::Layout)?;
    let state: String = member(object, "checkpointState")?;
    let state = match state.as_str() {
        STARTED => State::Started,
        COMPLETED => State::Completed(member(object, "preparedDevices")?),
        ABORTED => State::Aborted {
            at: aborted_at(object)?.map(Seconds::timestamp),
        },
        _ => return Err(DamageReason::UnknownState),
    };
    // What the state has no use for is carried, too, and has to be JSON.
    for unused in ["preparedDevices", "abortedAt"] {
        let _: Option<&RawValue> = get(&object.members, unused).map_or(Ok(None), json)?;
    }
    Ok(ClaimRecord {
        state,
        status: member(object, "status")?,
        name: member(object, "name")?,
        namespace: member(object, "namespace")?,
    })
}

/// Reads a claim of V1: it is completed; its names were not recorded.
pub(super) fn read_v1<P: Payload>(object: &Object<'_>) -> Result<ClaimRecord<P>, DamageReason> {
    Template::of(&CLAIM_V1, &object.members).ok_or(DamageReason::Layout)?;
    Ok(ClaimRecord {
        state: State::Completed(member(object, "preparedDevices")?),
        status: member(object, "status")?,
        name: String::new(),
        namespace: String::new(),
    })
}

/// Reads a claim of 25.3.0-rc.2: its devices and nothing else.
pub(super) fn read_rc2<P: Payload>(list: &[u8]) -> Result<ClaimRecord<P>, DamageReason> {
    let devices: Vec<&RawValue> = json(list)?;
    let read = devices.iter().map(|text| P::from_legacy(text.get()));
    let devices: Result<Vec<P>, _> = read.collect();
    Ok(ClaimRecord {
        state: State::Completed(devices.map_err(|_| DamageReason::Layout)?),
        status: ClaimStatus::default(),
        name: String::new(),
        namespace: String::new(),
    })
}

/// In Go a member that is absent or null leaves the zero value.
fn member<T: Default + DeserializeOwned>(
    object: &Object<'_>,
    key: &str,
) -> Result<T, DamageReason> {
    match get(&object.members, key) {
        None => Ok(T::default()),
        Some(text) => Ok(json::<Option<T>>(text)?.unwrap_or_default()),
    }
}

fn aborted_at(object: &Object<'_>) -> Result<Option<Seconds>, DamageReason> {
    let Some(text) = get(&object.members, "abortedAt") else {
        return Ok(None);
    };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = optional_seconds(&mut reader);
    read.map_err(|_| DamageReason::Layout)
}

pub(super) fn json<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, DamageReason> {
    serde_json::from_slice(text).map_err(|_| DamageReason::Layout)
}

// === text from records ===

/// The text of a record with Go's fields and no others.
pub(super) fn text<P: Payload>(record: &ClaimRecord<P>) -> Result<ClaimText, serde_json::Error> {
    let aborted_at = match record.state {
        State::Aborted { at } => at.map(Seconds::floor),
        State::Started | State::Completed(_) => None,
    };
    let (status, devices) = (&record.status, record.devices());
    let v1 = match record.state {
        State::Completed(_) => Some(gojson::to_string(&ClaimV1 { status, devices })?.into()),
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
    Ok(ClaimText { v1, v2: v2.into() })
}

// === text from text ===

/// The text of a claim of V2 as it was read. Its V1 says what V2 says, and
/// keeps what else was in `v1`. `None` if it has to be written anew.
pub(super) fn carried<P>(
    record: &ClaimRecord<P>,
    v2: &Entry<'_>,
    v1: Option<&Entry<'_>>,
) -> Option<ClaimText> {
    let Entry::Object(v2) = v2 else { return None };
    let template = match v1 {
        Some(Entry::Object(v1)) => Template::of(&CLAIM_V1, &v1.members)?,
        _ => Template::canonical(CLAIM_V1.len()),
    };
    let value = |key| get(&v2.members, key).and_then(utf8);
    let v1 = template.write(&CLAIM_V1, &CLAIM_V1.map(value));
    Some(ClaimText {
        v1: record.is_completed().then(|| v1.into()),
        v2: utf8(v2.text)?.into(),
    })
}

/// The text of a claim of V1 as it was read, and a V2 that says the same.
/// `None` if it has to be written anew.
pub(super) fn upgraded(v1: &Object<'_>) -> Option<ClaimText> {
    let is_v1s = |name: &&str| CLAIM_V1.contains(name);
    let others = CLAIM_V2.iter().filter(|name| !is_v1s(name));
    // What was foreign in V1 must not get a meaning in V2.
    let others: Vec<&str> = others.copied().collect();
    let named = |name: &&str| get(&v1.members, name).is_some();
    if others.iter().any(named) || Template::of(&others, &v1.members).is_none() {
        return None;
    }
    get(&v1.members, "status")?;
    let text = utf8(v1.text)?;
    let members = text.strip_prefix('{')?;
    Some(ClaimText {
        v1: Some(text.into()),
        v2: format!(r#"{{"checkpointState":"{COMPLETED}",{members}"#).into(),
    })
}

fn utf8(text: &[u8]) -> Option<&str> {
    str::from_utf8(text).ok()
}
