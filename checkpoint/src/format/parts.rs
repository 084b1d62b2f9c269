//! The file's parts and the names of their members.

use std::mem;

use super::object::{Member, Object, is_key};

/// The members of the file, of its parts and of V1's claims, in Go's order.
pub(super) const FILE: [&str; 3] = ["checksum", "v1", "v2"];
pub(super) const V1: [&str; 1] = ["preparedClaims"];
pub(super) const V2: [&str; 3] = ["checksum", "preparedClaims", "nodeBootID"];
pub(super) const CLAIM_V1: [&str; 2] = ["status", "preparedDevices"];
pub(super) const CLAIM_V2: [&str; 6] = [
    "checkpointState",
    "status",
    "preparedDevices",
    "name",
    "namespace",
    "abortedAt",
];

/// A file in Go's layout.
pub(super) struct File<'a> {
    pub(super) members: Object<'a>,
    /// `None` if it is not an object; usually absent or null.
    pub(super) v1: Option<Part<'a>>,
    pub(super) v2: Option<Part<'a>>,
}

/// V1 or V2.
#[derive(Default)]
pub(super) struct Part<'a> {
    pub(super) members: Object<'a>,
}

// === impl File ===

impl<'a> File<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut members = Object::parse_within(text, &[&["v1", "v2"], &["preparedClaims"]])?;
        let mut part = |name| {
            let part = members.0.iter_mut().find(|it| is_key(it.key, name))?;
            let members = mem::take(&mut part.members);
            part.value.starts_with('{').then_some(Part { members })
        };
        let (v1, v2) = (part("v1"), part("v2"));
        Some(Self { members, v1, v2 })
    }

    /// The text of V1 or V2, of any JSON type. As in Go, null counts as absent.
    pub(super) fn part_text(&self, name: &str) -> Option<&'a str> {
        self.members.get(name).filter(|text| *text != "null")
    }

    /// The key of another member that looks like a part; it may be V2 with a damaged name.
    pub(super) fn other_part(&self) -> Option<&'a str> {
        let is_part = |text| Object::parse(text).is_some_and(|it| it.get("checksum").is_some());
        let mut members = self.members.0.iter();
        let other =
            members.find(|it| !matches!(it.key, r#""v1""# | r#""v2""#) && is_part(it.value))?;
        Some(other.key)
    }
}

// === impl Part ===

impl<'a> Part<'a> {
    /// The claims. Each key is a UID as a JSON string.
    pub(super) fn claims(&self) -> &[Member<'a>] {
        let claims = self.members.member("preparedClaims");
        claims.map(|it| &it.members.0[..]).unwrap_or_default()
    }
}
