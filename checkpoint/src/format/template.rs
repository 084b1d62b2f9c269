//! The order of an object's members, including the unknown ones of a newer writer.

use std::fmt;

use super::object::{Member, is_key, unquoted};
use crate::gofields;

/// The order of an object's members: known ones by their index in Go's order,
/// unknown ones as text. Every known member has a place, even if the object lacks it.
// req: CKPT-4
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Item>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Known(usize),
    Unknown { key: Box<str>, value: Box<str> },
}

/// A member that the object must not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ForbiddenMember {
    /// Its name in the file's spelling, without the quotes.
    pub(super) name: String,
    cause: Cause,
}

#[derive(Debug, PartialEq, Eq)]
enum Cause {
    /// A known member occurs twice.
    Twice,
    /// The member is unknown and its name is not Unicode.
    NotUnicode,
    /// Go reads the member as this known one.
    MatchedByGo(&'static str),
}

// === impl Template ===

impl Template {
    /// Go's order, without unknown members.
    pub(super) fn canonical(known: usize) -> Self {
        Self((0..known).map(Item::Known).collect())
    }

    /// The order of an object that was read. Fails with the first member that the
    /// object must not have.
    pub(super) fn from_members(
        names: &[&'static str],
        members: &[Member<'_>],
    ) -> Result<Self, ForbiddenMember> {
        let mut items = Vec::with_capacity(names.len());
        for member in members {
            match names.iter().position(|name| is_key(member.key, name)) {
                Some(index) if items.contains(&Item::Known(index)) => {
                    return Err(ForbiddenMember::new(member, Cause::Twice));
                }
                Some(index) => items.push(Item::Known(index)),
                None => {
                    let unknown = Item::unknown(member, names);
                    items.push(unknown.map_err(|cause| ForbiddenMember::new(member, cause))?);
                }
            }
        }
        let mut template = Self(items);
        (0..names.len()).for_each(|index| template.place(index));
        Ok(template)
    }

    /// Drops the unknown members whose key `keep` refuses.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|item| match item {
            Item::Known(_) => true,
            Item::Unknown { key, .. } => keep(key),
        });
    }

    /// The object in pieces. `values` has the values of the known members, in Go's
    /// order and in pieces; members without a value are omitted.
    pub(super) fn write<'a>(
        &'a self,
        names: &[&'a str],
        values: &[Option<&[&'a str]>],
    ) -> Vec<&'a str> {
        // Four pieces for each member, and the closing bracket.
        let mut out = Vec::with_capacity(4 * self.0.len() + 1);
        for item in &self.0 {
            let bracket_or_comma = if out.is_empty() { "{" } else { "," };
            match item {
                Item::Unknown { key, value } => out.extend([bracket_or_comma, key, ":", value]),
                Item::Known(index) => {
                    if let (Some(name), Some(Some(value))) = (names.get(*index), values.get(*index))
                    {
                        out.extend([bracket_or_comma, "\"", name, "\":"]);
                        out.extend_from_slice(value);
                    }
                }
            }
        }
        if out.is_empty() {
            out.push("{");
        }
        out.push("}");
        out
    }

    /// Adds a missing known member, after its predecessor in Go's order.
    fn place(&mut self, index: usize) {
        if self.0.contains(&Item::Known(index)) {
            return;
        }
        let before = index.checked_sub(1).map(Item::Known);
        let at = self.0.iter().position(|item| Some(item) == before.as_ref());
        self.0.insert(at.map_or(0, |at| at + 1), Item::Known(index));
    }
}

// === impl Item ===

impl Item {
    fn unknown(member: &Member<'_>, names: &[&'static str]) -> Result<Self, Cause> {
        let name: String = serde_json::from_str(member.key).map_err(|_| Cause::NotUnicode)?;
        let mut names = names.iter();
        if let Some(known) = names.find(|known| gofields::is_same(&name, known)) {
            return Err(Cause::MatchedByGo(known));
        }
        Ok(Self::Unknown {
            key: member.key.into(),
            value: member.value.into(),
        })
    }
}

// === impl Misplaced ===

impl ForbiddenMember {
    fn new(member: &Member<'_>, cause: Cause) -> Self {
        Self {
            name: unquoted(member.key).to_owned(),
            cause,
        }
    }

    /// The reason, for messages.
    pub(super) fn flaw(&self) -> String {
        self.cause.to_string()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice => f.write_str("duplicate field"),
            Self::NotUnicode => f.write_str("the name is not Unicode"),
            Self::MatchedByGo(known) => write!(f, "Go reads this name as {known:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::Object;
    use super::*;

    const NAMES: [&str; 3] = ["a", "sk", "c"];

    fn template(text: &str) -> Result<Template, ForbiddenMember> {
        Template::from_members(&NAMES, &Object::parse(text).unwrap().0)
    }

    #[test]
    fn unknown_members_keep_their_place_and_spelling() {
        let read = template(r#"{"x":1.0, "a":0,"\u0079":{ "z":[]},"c":0,"w":null}"#).unwrap();
        let written = read.write(&NAMES, &[Some(&["1"]), Some(&["2"]), None]);
        assert_eq!(
            written.concat(),
            r#"{"x":1.0,"a":1,"sk":2,"\u0079":{ "z":[]},"w":null}"#
        );
    }

    #[test]
    fn another_order_than_gos_is_kept() {
        let read = template(r#"{"c":0,"a":0}"#).unwrap();
        let all: [Option<&[&str]>; 3] = [Some(&["1"]), Some(&["2"]), Some(&["3"])];
        assert_eq!(read.write(&NAMES, &all).concat(), r#"{"c":3,"a":1,"sk":2}"#);
    }

    #[test]
    fn a_member_that_go_reads_as_a_known_one_is_refused() {
        let taken_for = Cause::MatchedByGo;
        for (text, name, cause) in [
            (r#"{"a":1,"a":2}"#, "a", Cause::Twice),
            (r#"{"A":1}"#, "A", taken_for("a")),
            (r#"{"\u0061":1}"#, r"\u0061", taken_for("a")),
            (r#"{"\u017fk":1}"#, r"\u017fk", taken_for("sk")),
            ("{\"s\u{212a}\":1}", "s\u{212a}", taken_for("sk")),
            (r#"{"\ud800":1}"#, r"\ud800", Cause::NotUnicode),
        ] {
            let name = name.to_owned();
            assert_eq!(
                template(text),
                Err(ForbiddenMember { name, cause }),
                "{text}"
            );
        }
    }
}
