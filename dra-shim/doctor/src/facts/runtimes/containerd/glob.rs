//! Files by a pattern as Go's `path/filepath` has them: `*`, `?`, `[a-z]`, `[^a]`,
//! and `\` before what stands for itself.

use std::str::Chars;

use crate::files::HostFiles;

/// What makes a name a pattern.
const SPECIAL: [char; 4] = ['*', '?', '[', '\\'];

/// Why the files of a pattern are not known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GlobError {
    /// It is none.
    Pattern,
    /// This directory cannot be listed here.
    Directory(String),
}

/// The host's files whose path matches, in Go's order: directory by directory,
/// the names of each sorted.
pub(super) fn glob(files: &HostFiles, pattern: &str) -> Result<Vec<String>, GlobError> {
    let mut found = vec![String::new()];
    for name in pattern.split('/').filter(|name| !name.is_empty()) {
        let mut next = Vec::new();
        for dir in found {
            if name.contains(SPECIAL) {
                next.extend(in_directory(files, &dir, name)?);
            } else {
                next.push(format!("{dir}/{name}"));
            }
        }
        found = next;
    }
    found.retain(|path| files.exists(path));
    Ok(found)
}

fn in_directory(files: &HostFiles, dir: &str, pattern: &str) -> Result<Vec<String>, GlobError> {
    let listed = if dir.is_empty() { "/" } else { dir };
    let refused = || GlobError::Directory(listed.to_owned());
    let names = files.list_all(listed).ok_or_else(refused)?;
    let mut found = Vec::new();
    // As in Go, nobody notices where nothing is compared with it.
    if !names.is_empty() {
        check(pattern)?;
    }
    for name in names {
        if matches(pattern, &name)? {
            found.push(format!("{dir}/{name}"));
        }
    }
    Ok(found)
}

/// What is behind the first difference to a name has to be a pattern, too.
fn check(pattern: &str) -> Result<(), GlobError> {
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '[' => drop(is_in_class(&mut letters, '/')?),
            '\\' => drop(letters.next().ok_or(GlobError::Pattern)?),
            _ => {}
        }
    }
    Ok(())
}

/// The pattern and the name have no `/`.
fn matches<'a>(mut pattern: &'a str, mut name: &'a str) -> Result<bool, GlobError> {
    // What follows the last `*`, and where in the name that is looked for.
    let mut after_star: Option<(&'a str, &'a str)> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix('*') {
            pattern = rest;
            after_star = Some((rest, name));
        } else if pattern.is_empty() && name.is_empty() {
            return Ok(true);
        } else if let Some(rests) = match_letter(pattern, name)? {
            (pattern, name) = rests;
        } else {
            let Some((rest, from)) = after_star else {
                return Ok(false);
            };
            let mut letters = from.chars();
            if letters.next().is_none() {
                return Ok(false);
            }
            (pattern, name) = (rest, letters.as_str());
            after_star = Some((pattern, name));
        }
    }
}

/// What is left of both behind one letter; `None` if that does not match.
fn match_letter<'a>(
    pattern: &'a str,
    name: &'a str,
) -> Result<Option<(&'a str, &'a str)>, GlobError> {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    let (Some(special), Some(letter)) = (pattern.next(), name.next()) else {
        return Ok(None);
    };
    let matched = match special {
        '?' => true,
        '[' => is_in_class(&mut pattern, letter)?,
        '\\' => pattern.next().ok_or(GlobError::Pattern)? == letter,
        plain => plain == letter,
    };
    Ok(matched.then_some((pattern.as_str(), name.as_str())))
}

/// `pattern` is behind the `[`, and is left behind the `]`.
fn is_in_class(pattern: &mut Chars<'_>, letter: char) -> Result<bool, GlobError> {
    let negated = skip(pattern, '^');
    let mut found = false;
    let mut is_first = true;
    while is_first || !skip(pattern, ']') {
        is_first = false;
        let low = class_letter(pattern)?;
        let high = if skip(pattern, '-') {
            class_letter(pattern)?
        } else {
            low
        };
        found |= (low..=high).contains(&letter);
    }
    Ok(found != negated)
}

fn class_letter(pattern: &mut Chars<'_>) -> Result<char, GlobError> {
    match pattern.next() {
        None | Some('-' | ']') => Err(GlobError::Pattern),
        Some('\\') => pattern.next().ok_or(GlobError::Pattern),
        Some(letter) => Ok(letter),
    }
}

fn skip(pattern: &mut Chars<'_>, letter: char) -> bool {
    let rest = pattern.as_str().strip_prefix(letter);
    rest.inspect(|rest| *pattern = rest.chars()).is_some()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::root::Root;

    /// The rows of Go's own table that have no `/`, among others
    /// (`path/filepath/match_test.go`).
    #[test]
    fn names_match_as_in_go() {
        for (pattern, name, expected) in [
            ("*.toml", "nvidia.toml", Ok(true)),
            ("*.toml", ".toml", Ok(true)),
            ("*.toml", "nvidia.json", Ok(false)),
            ("a*b*c", "aXbXbYc", Ok(true)),
            ("a*b*c", "aXbXb", Ok(false)),
            ("*x", "xxx", Ok(true)),
            ("a.toml", "a.toml", Ok(true)),
            ("1?-*.toml", "10-cdi.toml", Ok(true)),
            ("1?-*.toml", "1-cdi.toml", Ok(false)),
            ("ab[c]", "abc", Ok(true)),
            ("ab[^c]", "abc", Ok(false)),
            ("ab[b-d]", "abc", Ok(true)),
            ("ab[e-g]", "abc", Ok(false)),
            ("a\\*b", "a*b", Ok(true)),
            ("a\\*b", "axb", Ok(false)),
            ("[\\]a]", "]", Ok(true)),
            ("[a-", "a", Err(GlobError::Pattern)),
            ("[]a]", "]", Err(GlobError::Pattern)),
            ("[x-]", "x", Err(GlobError::Pattern)),
            ("[^", "a", Err(GlobError::Pattern)),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn directories_are_patterns_too() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "b/y.toml",
            "b/x.toml",
            "a/z.toml",
            "c/x.json",
            "b/x.toml.old",
        ] {
            let path = dir.path().join("etc").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let files = HostFiles::new(Root::new(dir.path()).unwrap());
        let found = glob(&files, "/etc/*/*.toml").unwrap();
        assert_eq!(found, ["/etc/a/z.toml", "/etc/b/x.toml", "/etc/b/y.toml"]);
        assert_eq!(glob(&files, "/etc/b*/x.toml").unwrap(), ["/etc/b/x.toml"]);
        assert_eq!(glob(&files, "/none/*.toml"), Ok(vec![]));
        assert_eq!(glob(&files, "/none/*[.toml"), Ok(vec![]));
        assert_eq!(glob(&files, "/etc/x*["), Err(GlobError::Pattern));
    }
}
