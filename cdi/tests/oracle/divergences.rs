//! Where this crate differs from the Go library on purpose.
//!
//! For each difference there is an entry in `divergences.json` and a function
//! here that turns Go's answer into the expected one. Any remaining difference is a bug.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::answer::{Answer, Outcome};
use crate::cases::Case;

/// The differences, as the file lists them.
pub(crate) struct Table(Vec<Divergence>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Divergence {
    id: String,
    /// Why the crate differs.
    reason: String,
    /// In how many cases it shows, at most.
    at_most: u64,
}

/// What a difference is decided by.
struct Evidence<'a> {
    case: &'a Case,
    ours: &'a Answer,
    /// Go's answer to the case with each name once.
    go_once: &'a Answer,
}

impl Table {
    pub(crate) fn read() -> Self {
        Self(serde_json::from_str(include_str!("divergences.json")).unwrap())
    }

    /// Go's answer as it is wanted, and the differences that were in it.
    pub(crate) fn reconcile(
        &self,
        case: &Case,
        ours: &Answer,
        mut go: Answer,
        go_once: &Answer,
    ) -> (Answer, Vec<String>) {
        let evidence = Evidence {
            case,
            ours,
            go_once,
        };
        let mut ids = Vec::new();
        for Divergence { id, .. } in &self.0 {
            let before = go.clone();
            match id.as_str() {
                "name-of-one-letter" => survive("slice bounds out of range", &evidence, &mut go),
                "null-item" => survive("nil pointer dereference", &evidence, &mut go),
                "version-of-the-last-device" => require_version_of_all(&evidence, &mut go),
                "duplicate-request" => request_once(&evidence, &mut go),
                "variable-replaced" => replace_variables(&evidence, &mut go),
                "permissions-in-order" => order_permissions(&mut go),
                other => panic!("divergences.json has {other:?}, which no function knows"),
            }
            if go != before {
                ids.push(id.clone());
            }
        }
        (go, ids)
    }

    /// Every listed difference was seen, and not more often than listed.
    pub(crate) fn check(&self, counts: &BTreeMap<String, u64>) {
        for Divergence {
            id,
            reason,
            at_most,
        } in &self.0
        {
            assert!(reason.len() > 40, "{id} needs a reason");
            let count = counts.get(id).copied().unwrap_or_default();
            assert!(
                count > 0,
                "{id} is listed and never seen: take it off the list"
            );
            assert!(
                count <= *at_most,
                "{id} is seen {count} times, listed are {at_most}"
            );
        }
    }
}

/// Go panics with `message`, so there is no answer to compare.
fn survive(message: &str, evidence: &Evidence<'_>, go: &mut Answer) {
    if matches!(&go.outcome, Outcome::Panicked(found) if found.contains(message)) {
        *go = evidence.ours.clone();
    }
}

/// Go compares the declared version only with what the last device needs. So it accepts files that
/// are refused here; their devices resolve, or conflict with others.
fn require_version_of_all(evidence: &Evidence<'_>, go: &mut Answer) {
    let ours = evidence.ours;
    let differ = (&ours.devices, &ours.bad_files) != (&go.devices, &go.bad_files);
    if differ && evidence.case.has_file_refused_as("cdi-version-too-low") {
        *go = ours.clone();
    }
}

/// Go adds a device's rules and hooks again for each request.
fn request_once(evidence: &Evidence<'_>, go: &mut Answer) {
    if *go != *evidence.ours {
        *go = evidence.go_once.clone();
    }
}

/// Go replaces a variable that edits have set, but puts one that the config
/// has behind it: it looks config entries up by the whole `NAME=value`.
fn replace_variables(evidence: &Evidence<'_>, go: &mut Answer) {
    let own = evidence.case.config.pointer("/process/env");
    let own = own.and_then(Value::as_array).map_or(0, Vec::len);
    let Some(env) = config(go).and_then(|config| config.pointer_mut("/process/env")) else {
        return;
    };
    let env = env.as_array_mut().unwrap();
    let added = env.split_off(own);
    for variable in added {
        match env.iter().rposition(|other| name(other) == name(&variable)) {
            Some(at) => env[at] = variable,
            None => env.push(variable),
        }
    }
}

fn name(variable: &Value) -> &str {
    let text = variable.as_str().unwrap();
    text.split_once('=').map_or(text, |(name, _)| name)
}

/// Go copies the letters as they stand in the spec.
fn order_permissions(go: &mut Answer) {
    let rules = config(go).and_then(|config| config.pointer_mut("/linux/resources/devices"));
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten() {
        let access = rule["access"].as_str().unwrap();
        let ordered: String = ['r', 'w', 'm']
            .into_iter()
            .filter(|c| access.contains(*c))
            .collect();
        rule["access"] = ordered.into();
    }
}

fn config(answer: &mut Answer) -> Option<&mut Value> {
    match &mut answer.outcome {
        Outcome::Config(config) => Some(config),
        _ => None,
    }
}
