//! Which channels a node gives to pods of which namespaces.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use imex_cdi::ChannelId;

/// The node's list: `NAMESPACE=CHANNELS`, one on each line; channels are numbers and ranges,
/// `0,3-7`. A namespace that is not there gets none. Lines that begin with `#` are comments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed(BTreeMap<String, Vec<RangeInclusive<u32>>>);

/// Why a text is no such list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line:?} is not NAMESPACE=CHANNELS, such as team-a=1,8-15, with channels below {limit}", limit = ChannelId::LIMIT)]
pub struct AllowedError {
    /// The line.
    pub line: String,
}

// === impl Allowed ===

impl Allowed {
    /// Whether a pod of the namespace may have the channel.
    // req: NRI-18
    pub fn permits(&self, namespace: &str, channel: ChannelId) -> bool {
        let ranges = self.0.get(namespace).into_iter().flatten();
        ranges
            .into_iter()
            .any(|range| range.contains(&channel.get()))
    }

    /// Whether no pod may have any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for Allowed {
    type Err = AllowedError;

    fn from_str(text: &str) -> Result<Self, AllowedError> {
        let mut allowed = BTreeMap::<_, Vec<_>>::new();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let bad = || AllowedError {
                line: line.to_owned(),
            };
            let (namespace, channels) = line.split_once('=').ok_or_else(bad)?;
            let namespace = namespace.trim();
            if namespace.is_empty() || namespace.contains(char::is_whitespace) {
                return Err(bad());
            }
            for part in channels.split(',') {
                let range = range(part.trim()).ok_or_else(bad)?;
                allowed.entry(namespace.to_owned()).or_default().push(range);
            }
        }
        Ok(Self(allowed))
    }
}

/// `3` or `3-7`, of channels.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let number = |digits: &str| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number)?;
        ChannelId::new(number).ok().map(ChannelId::get)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = number(first)?..=number(last)?;
    (!range.is_empty()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_for_the_namespaces_that_are_listed_with_it() {
        let text = "# the node's list\nteam-a = 1, 8-15\n\nteam-b=0\nteam-a=2\n";
        let allowed: Allowed = text.parse().unwrap();
        let permits = |namespace, id| allowed.permits(namespace, ChannelId::new(id).unwrap());
        for id in [1, 2, 8, 15] {
            assert!(permits("team-a", id));
        }
        assert!(permits("team-b", 0) && !permits("team-b", 1));
        assert!(!permits("team-a", 0) && !permits("team-a", 16) && !permits("", 0));
        assert!(Allowed::default().is_empty() && "".parse::<Allowed>().unwrap().is_empty());
    }

    #[test]
    fn what_is_no_list_is_an_error_that_names_the_line() {
        for line in [
            "team-a",
            "=1",
            "a b=1",
            "a=",
            "a=x",
            "a=7-3",
            "a=1048576",
            "a=+1",
            "a=1--2",
            "a=*",
        ] {
            let error = format!("ok=1\n{line}").parse::<Allowed>().unwrap_err();
            assert_eq!(error.line, line);
        }
    }
}
