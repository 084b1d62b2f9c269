use std::fmt;

use serde_json::value::RawValue;

/// Where and how a file stops being a checkpoint: the first such place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// The file's text stops being JSON.
    NotJson {
        /// At this byte, counted from 0; the file's length where it is cut.
        offset: usize,
        /// The file's length in bytes.
        length: usize,
    },
    /// A member of the file, or of one of its parts, is wrong.
    Member {
        /// Which, from the file's top: `v2.nodeBootID`; empty for the file
        /// itself. Names are spelled as in the file.
        path: String,
        /// What is wrong with it, in a few words.
        flaw: String,
    },
    /// A claim is in a state that this version does not know.
    State {
        /// The claim.
        uid: String,
        /// The state's name in the file.
        state: String,
    },
    /// A claim's record cannot be read.
    Record {
        /// The claim.
        uid: String,
        /// What is wrong with which member, in a few words.
        flaw: String,
    },
}

// === impl Detail ===

impl Detail {
    /// Where a text stops being JSON; `None` if it is JSON.
    pub(crate) fn not_json(text: &[u8]) -> Option<Self> {
        let error = parse(text).err()?;
        let decodable = str::from_utf8(text).map_or_else(|error| error.valid_up_to(), str::len);
        let mut offset = position(text, &error).min(decodable);
        // The parser reports its position: at the byte it did not expect, or
        // behind it, since it reads the four digits of an escape at once.
        while offset > 0 && !is_begun(text.get(..offset).unwrap_or_default()) {
            offset -= 1;
        }
        Some(Self::NotJson {
            offset,
            length: text.len(),
        })
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { offset, length } => {
                write!(f, "its text is JSON up to byte {offset} of {length}")
            }
            Self::Member { path, flaw } if path.is_empty() => write!(f, "the file: {flaw}"),
            Self::Member { path, flaw } => write!(f, "{}: {flaw}", path.escape_debug()),
            Self::State { uid, state } => {
                write!(f, "claim {} is in the state {state:?}", uid.escape_debug())
            }
            Self::Record { uid, flaw } => {
                write!(f, "the record of claim {}: {flaw}", uid.escape_debug())
            }
        }
    }
}

fn parse(text: &[u8]) -> Result<&RawValue, serde_json::Error> {
    serde_json::from_slice(text)
}

/// Whether JSON can begin with this text, or it is JSON.
fn is_begun(text: &[u8]) -> bool {
    let is_begun = |text| parse(text).err().is_none_or(|error| error.is_eof());
    // To the parser a number that lacks its last digits is wrong, not cut.
    is_begun(text) || is_begun(&[text, b"0"].concat())
}

/// The byte that the parser had come to.
fn position(text: &[u8], error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let breaks = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let mut starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1));
    let start = starts.nth(error.line().saturating_sub(1)).unwrap_or(0);
    (start + error.column()).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(text: &[u8]) -> Option<usize> {
        let Detail::NotJson { offset, length } = Detail::not_json(text)? else {
            panic!("another detail")
        };
        assert_eq!(length, text.len());
        Some(offset)
    }

    const GOOD: &str = "{\"a\": [1.5, \"\\nä\"],\n \"b\": {\"c\": null}\n}";

    #[test]
    fn the_first_byte_that_cannot_be_json_is_named() {
        assert_eq!(offset(GOOD.as_bytes()), None);
        for at in 0..GOOD.len() {
            for wrong in [1, 0xff] {
                let mut text = GOOD.as_bytes().to_vec();
                text[at] = wrong;
                let found = offset(&text).unwrap();
                // Half a character is no character.
                let is_second_half = !GOOD.is_char_boundary(at);
                assert_eq!(found, at - usize::from(is_second_half), "byte {at}");
            }
        }
    }

    #[test]
    fn a_text_that_is_cut_is_json_up_to_its_end() {
        for length in 1..GOOD.len() {
            let text = &GOOD.as_bytes()[..length];
            let in_character = usize::from(!GOOD.is_char_boundary(length));
            assert_eq!(offset(text), Some(length - in_character), "{length}");
        }
    }

    #[test]
    fn what_follows_the_json_is_named() {
        let text = format!("{GOOD} }}");
        assert_eq!(offset(text.as_bytes()), Some(GOOD.len() + 1));
    }
}
