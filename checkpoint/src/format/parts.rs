//! The file's parts as they were found, and the names of what is in them.

use std::ops::Range;

use super::scan::{Member, Object, Scanner};

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

/// A file, as far as it could be scanned.
#[derive(Debug, Default)]
pub(super) struct File<'a> {
    /// `{"checksum":…,"v1":…,"v2":…}`; a part's value is the part's text.
    pub(super) members: Vec<Member<'a>>,
    /// `None` if it is absent, null or broken.
    pub(super) v1: Option<Part<'a>>,
    pub(super) v2: Option<Part<'a>>,
    /// The key of another member than `v1` and `v2` that looks like a part.
    pub(super) other_part: Option<&'a [u8]>,
    /// Whether it could be scanned to its end.
    pub(super) is_whole: bool,
}

/// V1 or V2.
#[derive(Debug, Default)]
pub(super) struct Part<'a> {
    /// The members other than `preparedClaims` have their values.
    pub(super) object: Object<'a>,
    pub(super) claims: Vec<Claim<'a>>,
    /// Where the checksum's value is in the part's text.
    checksum: Range<usize>,
}

#[derive(Debug)]
pub(super) struct Claim<'a> {
    /// The UID as a JSON string.
    pub(super) uid: &'a [u8],
    pub(super) entry: Entry<'a>,
}

#[derive(Debug)]
pub(super) enum Entry<'a> {
    Object(Object<'a>),
    /// A list, as 25.3.0-rc.2 has it, or nothing that belongs there.
    Other(&'a [u8]),
}

// === impl File ===

impl<'a> File<'a> {
    /// Splits the file as far as it can be scanned; never fails.
    pub(super) fn scan(text: &'a [u8]) -> Self {
        let mut file = Self::default();
        let mut scanner = Scanner::new(text);
        let end = scanner.object(|scanner, key| {
            let (value, part) = part_or_value(scanner)?;
            match (key, part) {
                (br#""v1""#, part) => file.v1 = part,
                (br#""v2""#, part) => file.v2 = part,
                (_, Some(part)) if part.get("checksum").is_some() => file.other_part = Some(key),
                _ => {}
            }
            file.members.push(Member { key, value });
            Some(())
        });
        file.is_whole = end.is_some() && scanner.is_at_end();
        file
    }

    /// Searches for V2 in a file that is broken in V1.
    pub(super) fn find_v2(&mut self, text: &'a [u8]) {
        if self.v2.is_none() {
            self.v2 = last_v2(text);
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a [u8]> {
        get(&self.members, key)
    }

    /// V1's text, whatever it is; in Go null is as good as absent.
    pub(super) fn v1_text(&self) -> Option<&'a [u8]> {
        self.get("v1").filter(|text| *text != b"null")
    }

    /// V2's text, as V1's.
    pub(super) fn v2_text(&self) -> Option<&'a [u8]> {
        self.get("v2").filter(|text| *text != b"null")
    }

    /// Whether there is a V2, or another member that may be one under a damaged
    /// name.
    pub(super) fn may_have_v2(&self) -> bool {
        self.v2_text().is_some() || self.other_part.is_some()
    }
}

fn part_or_value<'a>(scanner: &mut Scanner<'a>) -> Option<(&'a [u8], Option<Part<'a>>)> {
    if scanner.peek()? != b'{' {
        return Some((scanner.value()?, None));
    }
    let part = Part::scan(scanner)?;
    Some((part.object.text, Some(part)))
}

/// V2 of a file, whatever is before it. Go writes it last, so it is V2 only if
/// nothing but the file's own bracket follows: text in a claim's data that looks
/// like V2 is followed by more, unless the file is cut just there.
fn last_v2(text: &[u8]) -> Option<Part<'_>> {
    const KEY: &[u8] = br#","v2":"#;
    /// Each attempt scans to the text's end at most.
    const ATTEMPTS: usize = 16;

    let found = text.windows(KEY.len()).enumerate();
    let starts = found.filter_map(|(at, window)| (window == KEY).then_some(at + KEY.len()));
    starts.take(ATTEMPTS).find_map(|start| {
        let mut scanner = Scanner::new(text.get(start..)?);
        let part = Part::scan(&mut scanner)?;
        let rest = scanner.rest().trim_ascii();
        (rest == b"}").then_some(part)
    })
}

// === impl Part ===

impl<'a> Part<'a> {
    fn scan(scanner: &mut Scanner<'a>) -> Option<Self> {
        let mut part = Self::default();
        scanner.peek()?;
        let start = scanner.at();
        let text = scanner.object(|scanner, key| {
            let value = if key == br#""preparedClaims""# && scanner.peek()? == b'{' {
                scanner.object(|scanner, uid| {
                    let entry = Entry::scan(scanner)?;
                    part.claims.push(Claim { uid, entry });
                    Some(())
                })?
            } else {
                scanner.value()?
            };
            if key == br#""checksum""# {
                let end = scanner.at() - start;
                part.checksum = end - value.len()..end;
            }
            part.object.members.push(Member { key, value });
            Some(())
        })?;
        part.object.text = text;
        Some(part)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a [u8]> {
        get(&self.object.members, key)
    }

    /// The part's text before and after the checksum's value.
    pub(super) fn around_checksum(&self) -> (&'a [u8], &'a [u8]) {
        let Range { start, end } = self.checksum;
        let text = self.object.text;
        (
            text.get(..start).unwrap_or_default(),
            text.get(end..).unwrap_or_default(),
        )
    }
}

// === impl Claim ===

impl Claim<'_> {
    /// Whether it has the layout of 25.3.0-rc.2: a list.
    pub(super) fn is_rc2(&self) -> bool {
        matches!(self.entry, Entry::Other(list) if list.starts_with(b"["))
    }
}

// === impl Entry ===

impl<'a> Entry<'a> {
    pub(super) fn scan(scanner: &mut Scanner<'a>) -> Option<Self> {
        Some(if scanner.peek()? == b'{' {
            Self::Object(Object::scan(scanner)?)
        } else {
            Self::Other(scanner.value()?)
        })
    }
}

/// The value of a member by its key, which needs no escapes.
pub(super) fn get<'a>(members: &[Member<'a>], key: &str) -> Option<&'a [u8]> {
    let found = members.iter().find(|member| is_key(member.key, key));
    found.map(|member| member.value)
}

/// Whether a key (a JSON string) is `name`, spelled without escapes.
pub(super) fn is_key(text: &[u8], name: &str) -> bool {
    let inner = text
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    inner == Some(name.as_bytes())
}
