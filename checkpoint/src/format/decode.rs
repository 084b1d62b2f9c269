use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::encode::outer_checksum;
use super::parts::{
    ABORTED, COMPLETED, ClaimLegacy, ClaimV1, ClaimV2, Envelope, Members, STARTED, V1, V2,
};
use super::{Checkpoint, Damaged};
use crate::checksum::Checksum;
use crate::damage::{DamageReason, Survivors};
use crate::gojson;
use crate::record::{ClaimRecord, Payload, State};
use crate::status::{ClaimStatus, Seconds};

/// A part of the file, or why it cannot be used.
type Part<P> = Result<Checkpoint<P>, DamageReason>;

pub(super) fn decode<P: Payload>(bytes: &[u8]) -> Result<Checkpoint<P>, Damaged<P>> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(lost(DamageReason::Empty));
    }
    let envelope = Envelope::parse(bytes).map_err(|err| lost(reason_of(&err)))?;
    let v1 = v1_part(&envelope);
    match envelope.v2 {
        Some(v2) => choose(v1, v2_part(v2)),
        // 25.3.x wrote no other key: here the name of V2 itself is damaged.
        None if envelope.has_unknown_key => choose(v1, Err(DamageReason::Layout)),
        None => v1.map_err(lost),
    }
}

/// V2 counts; V1 saves the completed claims when V2 is bad. V1's content is
/// never compared with V2's, only its checksum matters, as in Go.
fn choose<P>(v1: Part<P>, v2: Part<P>) -> Result<Checkpoint<P>, Damaged<P>> {
    let (reason, survivors, saved) = match (v1, v2) {
        (Ok(_), Ok(v2)) => return Ok(v2),
        (Err(reason), Ok(v2)) => (reason, Survivors::All, v2),
        (Ok(v1), Err(reason)) => (reason, Survivors::Some, v1),
        (Err(DamageReason::V1Checksum), Err(DamageReason::V2Checksum)) => {
            return Err(lost(DamageReason::BothChecksums));
        }
        (Err(_), Err(reason)) => return Err(lost(reason)),
    };
    Err(Damaged {
        reason,
        survivors,
        saved,
    })
}

fn lost<P>(reason: DamageReason) -> Damaged<P> {
    Damaged {
        reason,
        survivors: Survivors::None,
        saved: Checkpoint::empty(),
    }
}

fn reason_of(err: &serde_json::Error) -> DamageReason {
    match err.classify() {
        Category::Data => DamageReason::Layout,
        Category::Syntax | Category::Eof | Category::Io => DamageReason::NotJson,
    }
}

// === V1 ===

fn v1_part<P: Payload>(envelope: &Envelope<'_>) -> Part<P> {
    let text = envelope.v1.map(|raw| gojson::compact(raw.get()));
    if outer_checksum(text.as_deref()) != envelope.checksum {
        return Err(DamageReason::V1Checksum);
    }
    let Some(raw) = envelope.v1 else {
        return Ok(Checkpoint::empty());
    };
    match serde_json::from_str::<V1<ClaimV1<P>>>(raw.get()) {
        Ok(part) => Ok(upgrade(part, completed)),
        Err(_) => legacy_part(raw).map_err(|_| DamageReason::Layout),
    }
}

fn completed<P>(claim: ClaimV1<P>) -> (ClaimStatus, Vec<P>) {
    (
        claim.status.unwrap_or_default(),
        claim.devices.unwrap_or_default(),
    )
}

fn legacy_part<P: Payload>(raw: &RawValue) -> Result<Checkpoint<P>, serde_json::Error> {
    let part: V1<ClaimLegacy> = serde_json::from_str(raw.get())?;
    let mut read = BTreeMap::new();
    for (uid, groups) in part.claims.unwrap_or_default() {
        let devices: Result<Vec<P>, _> = groups.iter().map(|g| P::from_legacy(g.get())).collect();
        read.insert(uid, devices?);
    }
    Ok(upgrade(V1 { claims: Some(read) }, |devices| {
        (ClaimStatus::default(), devices)
    }))
}

/// Every claim of V1 is completed; its names and boot were not recorded.
fn upgrade<C, P>(part: V1<C>, split: impl Fn(C) -> (ClaimStatus, Vec<P>)) -> Checkpoint<P> {
    let claims = part.claims.unwrap_or_default().into_iter();
    let records = claims.map(|(uid, claim)| {
        let (status, devices) = split(claim);
        let (name, namespace) = (String::new(), String::new());
        let state = State::Completed(devices);
        (
            uid,
            Arc::new(ClaimRecord {
                state,
                status,
                name,
                namespace,
            }),
        )
    });
    Checkpoint {
        records: records.collect(),
        boot_id: None,
    }
}

// === V2 ===

fn v2_part<P: Payload>(raw: &RawValue) -> Part<P> {
    let members: Members<'_> = serde_json::from_str(raw.get()).map_err(|e| reason_of(&e))?;
    verify_v2(&members)?;
    let part: V2<P> = serde_json::from_str(raw.get()).map_err(|e| reason_of(&e))?;
    let claims = part.claims.unwrap_or_default().into_iter();
    let records: Result<_, DamageReason> = claims
        .map(|(uid, claim)| Ok((uid, Arc::new(record(claim)?))))
        .collect();
    let boot_id = part.boot_id.filter(|id| !id.is_empty());
    Ok(Checkpoint {
        records: records?,
        boot_id,
    })
}

/// V2's own checksum is over its text with the checksum's value zeroed. It is
/// verified on the file's text, not on what we understand of it, so that a
/// newer writer's fields do not look like damage.
fn verify_v2(members: &Members<'_>) -> Result<(), DamageReason> {
    let mut stored = 0;
    let mut sum = Checksum::new().add(b"{");
    for (at, (key, value)) in members.0.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let key_text = gojson::to_string(key.as_str()).map_err(|_| DamageReason::Layout)?;
        sum = sum.add(format!("{comma}{key_text}:").as_bytes());
        if key == "checksum" {
            stored = u64::deserialize(*value).map_err(|_| DamageReason::Layout)?;
            sum = sum.add(b"0");
        } else {
            sum = sum.add(gojson::compact(value.get()).as_bytes());
        }
    }
    if sum.add(b"}").finish() == stored {
        Ok(())
    } else {
        Err(DamageReason::V2Checksum)
    }
}

fn record<P>(claim: ClaimV2<P>) -> Result<ClaimRecord<P>, DamageReason> {
    let state = match claim.state.as_deref() {
        Some(STARTED) => State::Started,
        Some(COMPLETED) => State::Completed(claim.devices.unwrap_or_default()),
        Some(ABORTED) => State::Aborted {
            at: claim.aborted_at.map(Seconds::timestamp),
        },
        _ => return Err(DamageReason::UnknownState),
    };
    Ok(ClaimRecord {
        state,
        status: claim.status.unwrap_or_default(),
        name: claim.name.unwrap_or_default(),
        namespace: claim.namespace.unwrap_or_default(),
    })
}
