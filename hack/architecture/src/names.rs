//! Checks that identifiers have names that an engineer would search for, not words of everyday speech.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use crate::error::Error;
use crate::machines;

/// Words that no identifier may contain, each with its replacements.
const REFUSED: [(&str, &str); 16] = [
    ("told", "event, report, reported"),
    ("tell", "report, send"),
    ("said", "reported"),
    ("unsaid", "unknown"),
    ("whose", "owner"),
    ("nobody", "unowned, unassigned"),
    ("nobodys", "unowned"),
    ("everybody", "all"),
    ("everybodys", "shared"),
    ("untold", "omitted, unreported"),
    ("somebody", "other"),
    ("anybody", "any"),
    ("news", "event, change"),
    ("fate", "outcome"),
    ("standing", "state"),
    ("hindered", "blocked"),
];

/// An identifier with more words is a sentence, the name of a test.
const MOST_WORDS: usize = 4;

/// One line for each identifier with such a word.
pub(crate) fn findings(root: &Path) -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    for path in machines::sources(root)? {
        let name = path.strip_prefix(root).unwrap_or(&path);
        if path.extension().is_none_or(|it| it != "rs") || name.starts_with("hack") {
            continue;
        }
        // If a file is not valid Rust, the compiler reports it.
        let tokens = machines::read(&path)?.parse().unwrap_or_default();
        let mut found = Vec::new();
        collect(tokens, &mut found);
        found.sort();
        found.dedup();
        findings.extend(found.iter().map(|it| format!("{}: {it}", name.display())));
    }
    Ok(findings)
}

fn collect(tokens: TokenStream, found: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Ident(ident) => found.extend(finding(&ident.to_string())),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn finding(identifier: &str) -> Option<String> {
    let words = words(identifier);
    if words.len() > MOST_WORDS {
        return None;
    }
    let (word, better) = REFUSED
        .iter()
        .find(|(word, _)| words.iter().any(|it| it == word))?;
    Some(format!(
        "the identifier {identifier} contains the word {word}; use for example {better}"
    ))
}

/// `NodeClaims` and `node_claims` are `node` and `claims`.
fn words(identifier: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    for c in identifier.chars() {
        let is_start = c == '_' || (c.is_uppercase() && identifier.contains(char::is_lowercase));
        if is_start {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c != '_', words.last_mut()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_word_is_found_in_any_spelling_except_in_test_names() {
        for identifier in ["Told", "is_told", "TOLD", "WasTold", "told_all"] {
            assert!(finding(identifier).is_some(), "{identifier}");
        }
        for identifier in ["toldo", "Retold", "the_pod_is_told_of_it", "reported"] {
            assert_eq!(finding(identifier), None, "{identifier}");
        }
        let mut found = Vec::new();
        let tokens = "fn f() { g(\"told\", x.told) } // told".parse().unwrap();
        collect(tokens, &mut found);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
