//! Devices selected by name, kind or pattern.

use std::str::FromStr;

use imex_cdi::{DeviceName, Kind};

/// A selection of devices: `[VENDOR/]CLASS[=DEVICE]`, each part a glob. Without VENDOR it matches
/// any vendor, without DEVICE every device. A full device name is a selection, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceSelection {
    /// The argument's text.
    pub(crate) text: String,
    vendor: Glob,
    class: Glob,
    device: Glob,
}

/// A glob for one part of a name: `*`, `?` and sets such as `[0-3]` or `[^a]`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Glob(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    /// `?`
    Any,
    /// `*`
    Rest,
    /// Character ranges, and whether the set is negated.
    Set(Vec<(char, char)>, bool),
}

/// The error for an invalid set of characters.
const BAD_SET: &str = "the pattern has a [ without a matching ], or empty brackets";

// === impl Wanted ===

impl DeviceSelection {
    pub(crate) fn matches(&self, kind: &Kind, device: &DeviceName) -> bool {
        self.vendor.matches(kind.vendor())
            && self.class.matches(kind.class())
            && self.device.matches(device.as_str())
    }
}

impl FromStr for DeviceSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, device) = match text.split_once('=') {
            Some((kind, device)) => (kind, device),
            None => (text, "*"),
        };
        let (vendor, class) = kind.split_once('/').unwrap_or(("*", kind));
        let is_part = |part: &str| !part.is_empty() && part.chars().all(is_pattern_char);
        if ![vendor, class, device].into_iter().all(is_part) {
            return Err(format!(
                "{text:?} is not a device (vendor/class=device), kind (vendor/class) or pattern (gpu=*)"
            ));
        }
        Ok(Self {
            text: text.to_owned(),
            vendor: vendor.parse()?,
            class: class.parse()?,
            device: device.parse()?,
        })
    }
}

/// Characters of names and of globs.
fn is_pattern_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.:*?[]^".contains(c)
}

// === impl Glob ===

impl Glob {
    /// Backtracks to the last `*` only: it can match whatever an earlier one would.
    fn matches(&self, name: &str) -> bool {
        let (mut tokens, mut name) = (self.0.as_slice(), name.chars());
        let mut last_rest = None;
        loop {
            match tokens.split_first() {
                Some((Token::Rest, after)) => {
                    last_rest = Some((after, name.clone()));
                    tokens = after;
                    continue;
                }
                Some((token, after)) if name.next().is_some_and(|c| token.is(c)) => {
                    tokens = after;
                    continue;
                }
                None if name.as_str().is_empty() => return true,
                _ => {}
            }
            let Some((after, rest)) = &mut last_rest else {
                return false;
            };
            if rest.next().is_none() {
                return false;
            }
            (tokens, name) = (*after, rest.clone());
        }
    }
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            tokens.push(match c {
                '*' => Token::Rest,
                '?' => Token::Any,
                '[' => {
                    let (set, after) = rest.split_once(']').ok_or(BAD_SET)?;
                    rest = after;
                    Token::set(set)?
                }
                c => Token::Char(c),
            });
        }
        Ok(Self(tokens))
    }
}

// === impl Token ===

impl Token {
    fn is(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::Any | Self::Rest => true,
            Self::Set(ranges, others) => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *others
            }
        }
    }

    fn set(text: &str) -> Result<Self, String> {
        let (text, others) = match text.strip_prefix('^') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let mut ranges = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(low) = chars.next() {
            let mut high = low;
            // A trailing `-` is literal.
            if chars.peek() == Some(&'-') {
                chars.next();
                match chars.next() {
                    Some(end) => high = end,
                    None => ranges.push(('-', '-')),
                }
            }
            ranges.push((low, high));
        }
        if ranges.is_empty() {
            return Err(BAD_SET.to_owned());
        }
        Ok(Self::Set(ranges, others))
    }
}

#[cfg(test)]
mod tests {
    use imex_cdi::QualifiedName;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let name: QualifiedName = name.parse().unwrap();
        let wanted: DeviceSelection = pattern.parse().unwrap();
        wanted.matches(name.kind(), name.device())
    }

    #[test]
    fn a_pattern_matches_the_devices_that_it_describes() {
        for (pattern, name) in [
            ("*", "nvidia.com/gpu=0"),
            ("*/*=*", "nvidia.com/gpu=0"),
            ("gpu", "nvidia.com/gpu=0"),
            ("gpu", "amd.com/gpu=all"),
            ("gpu=*", "amd.com/gpu=all"),
            ("nvidia.com/gpu", "nvidia.com/gpu=GPU-a1"),
            ("nvidia.com/gpu=*", "nvidia.com/gpu=GPU-a1"),
            ("nvidia.com/gpu=0", "nvidia.com/gpu=0"),
            ("nvidia.com/*=0", "nvidia.com/gpu=0"),
            (
                "*.com/imex-*=channel[-0-3]*",
                "nvidia.com/imex-channel=channel-7",
            ),
            ("gpu=?", "nvidia.com/gpu=0"),
            ("gpu=[0-3]", "nvidia.com/gpu=3"),
            ("gpu=[^0-3]", "nvidia.com/gpu=4"),
            ("gpu=[a-]", "nvidia.com/gpu=a"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("gpu", "nvidia.com/gpu-x=0"),
            ("gpu=0", "nvidia.com/gpu=00"),
            ("gpu=?", "nvidia.com/gpu=10"),
            ("gpu=[0-3]", "nvidia.com/gpu=4"),
            ("gpu=[^0-3]", "nvidia.com/gpu=3"),
            ("nvidia.com/*", "amd.com/gpu=0"),
            ("nvidia.com", "nvidia.com/gpu=0"),
            ("gpu=*1*2*3", "nvidia.com/gpu=1-2-4"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_that_no_name_can_match_is_refused() {
        for text in [
            "",
            "=0",
            "gpu=",
            "/gpu",
            "a/b/c",
            "a b",
            "gpu={0,1}",
            "gpu=[0",
            "gpu=[]",
            "ä",
        ] {
            assert!(text.parse::<DeviceSelection>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_is_matched_quickly() {
        let pattern = format!("gpu={}b", "*a".repeat(40));
        let name = format!("nvidia.com/gpu={}", "a".repeat(60));
        assert!(!matches(&pattern, &name));
    }
}
