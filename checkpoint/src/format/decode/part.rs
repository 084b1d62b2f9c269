//! Reading that V1 and V2 share.

use super::super::claim;
use super::super::parts::Part;
use super::super::template::Template;
use super::flaw::Flaw;

/// Why a part can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Its checksum matches its text: one writer wrote all of it.
    Text,
    /// Its checksum matches the text that Go would write for it. It was reformatted,
    /// and may contain additions that no checksum covers.
    Content,
}

/// The order of a part's members; unknown ones stay if the checksum covers them.
pub(super) fn part_order(
    (part_name, part): (&str, &Part<'_>),
    names: &[&'static str],
    trust: Trust,
) -> Result<Template, Flaw> {
    let read = Template::from_members(names, &part.members.0);
    let read = read.map_err(|misplaced| Flaw::misplaced(&format!("{part_name}."), &misplaced))?;
    Ok(match trust {
        Trust::Text => read,
        Trust::Content => Template::canonical(names.len()),
    })
}

/// Refuses claims that are neither an object nor null, which Go reads as no claims.
pub(super) fn check_claims((part_name, part): (&str, &Part<'_>)) -> Result<(), Flaw> {
    match part.members.get("preparedClaims") {
        Some(claims) if !claims.starts_with('{') && claims != "null" => Err(Flaw::in_member(
            &format!("{part_name}.preparedClaims"),
            "not an object",
        )),
        _ => Ok(()),
    }
}

/// Reads a claim's UID.
pub(super) fn parse_uid(part_name: &str, key: &str) -> Result<String, Flaw> {
    serde_json::from_str(key).map_err(|error| {
        let path = format!("{part_name}.preparedClaims");
        Flaw::in_member(&path, &format!("the UID {key}: {}", claim::message(&error)))
    })
}
