//! Numbers in sentences, and shell quoting of paths in commands that people copy.

use std::collections::BTreeSet;

/// Numbers and ranges beyond this many are only counted.
const SHOWN: usize = 8;

/// `1 error`, `2 errors`.
pub fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// The end of a message that names one of several: ` (and 2 more like it)`.
pub fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        n => format!(" (and {n} more like it)"),
    }
}

/// Numbers and ranges, ascending: `1, 4, 6-9`. Of many, the first few: `1, 3, ... and 5 more`.
pub fn number_list(numbers: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let (shown, rest) = ranges.split_at(ranges.len().min(SHOWN));
    let shown = shown.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    let list = shown.collect::<Vec<_>>().join(", ");
    match rest
        .iter()
        .map(|(first, last)| last - first + 1)
        .sum::<u32>()
    {
        0 => list,
        more => format!("{list} and {more} more"),
    }
}

/// Quotes `text` for a POSIX shell if necessary.
///
/// ```
/// use host_doctor::shell_quote;
///
/// assert_eq!(shell_quote("/etc/cdi/nvidia.yaml"), "/etc/cdi/nvidia.yaml");
/// assert_eq!(shell_quote("it's here"), r"'it'\''s here'");
/// ```
pub fn shell_quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_a_range_and_many_are_cut() {
        let list = |numbers: &[u32]| number_list(&numbers.iter().copied().collect());
        assert_eq!(list(&[]), "");
        assert_eq!(list(&[4, 1, 7, 6, 8]), "1, 4, 6-8");
        assert_eq!(
            list(&[0, u32::MAX - 1, u32::MAX]),
            "0, 4294967294-4294967295"
        );
        let odd: Vec<u32> = (0..20).map(|n| 2 * n).chain([39, 40]).collect();
        assert_eq!(list(&odd), "0, 2, 4, 6, 8, 10, 12, 14 and 14 more");
        assert_eq!(number_list(&(0..2048).collect()), "0-2047");
    }

    #[test]
    fn only_what_a_shell_would_split_or_expand_is_quoted() {
        assert_eq!(shell_quote("/etc/cdi/a.json"), "/etc/cdi/a.json");
        assert_eq!(shell_quote("a b"), "'a b'");
        assert_eq!(shell_quote("$HOME"), "'$HOME'");
        assert_eq!(shell_quote("it's"), r"'it'\''s'");
        assert_eq!(shell_quote(""), "''");
    }
}
