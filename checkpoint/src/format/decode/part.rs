//! What V1 and V2 have in common.

use super::super::claim;
use super::super::parts::Part;
use super::super::template::Template;
use super::flaw::Flaw;

/// Why a part can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// The checksum is that of its text: whoever wrote that, wrote all of it.
    Text,
    /// The checksum is that of what Go would write for it: someone laid it out
    /// anew, and may have added what no checksum covers.
    Content,
}

/// Foreign members stay if the checksum is over them.
pub(super) fn order_of(
    (part_name, part): (&str, &Part<'_>),
    names: &[&'static str],
    trust: Trust,
) -> Result<Template, Flaw> {
    let read = Template::of(names, &part.object.members);
    let read = read.map_err(|unplaced| Flaw::of_unplaced(Some(part_name), &unplaced))?;
    Ok(match trust {
        Trust::Text => read,
        Trust::Content => Template::canonical(names.len()),
    })
}

/// In Go null is no claims; anything but an object is an error.
pub(super) fn has_claims((part_name, part): (&str, &Part<'_>)) -> Result<(), Flaw> {
    match part.get("preparedClaims") {
        Some(claims) if !claims.starts_with(b"{") && claims != b"null" => Err(Flaw::of_member(
            format!("{part_name}.preparedClaims"),
            "it is not an object",
        )),
        _ => Ok(()),
    }
}

/// A claim's UID.
pub(super) fn uid_of(part_name: &str, key: &[u8]) -> Result<String, Flaw> {
    serde_json::from_slice(key).map_err(|error| {
        let path = format!("{part_name}.preparedClaims");
        let key = String::from_utf8_lossy(key);
        Flaw::of_member(path, format!("the UID {key}: {}", claim::message(&error)))
    })
}
