//! Findings that differ only in what they are about, told once: a driver that
//! was loaded again makes every spec stale.

use std::collections::HashMap;

use super::Finding;
use crate::doctor::finding::Severity;

/// As many as are named of those that are like another.
const NAMED: usize = 2;

/// A finding, and those like it.
#[derive(Debug)]
pub(super) struct Alike<'a> {
    pub(super) first: &'a Finding,
    others: Vec<&'a str>,
}

/// What findings of one cause have in common.
type Key = (&'static str, Severity, Vec<u8>, String);

/// In the order of the first of each.
pub(super) fn alike(findings: &[Finding]) -> Vec<Alike<'_>> {
    let mut all: Vec<Alike<'_>> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    for finding in findings {
        let place = *places.entry(key(finding)).or_insert(all.len());
        match all.get_mut(place) {
            Some(alike) => alike.others.push(&finding.subject),
            None => all.push(Alike {
                first: finding,
                others: vec![],
            }),
        }
    }
    all
}

fn key(finding: &Finding) -> Key {
    let without_subject = |text: &str| text.replace(&finding.subject, "\0");
    let evidence = without_numbers(&without_subject(&finding.evidence));
    let fix = without_subject(&finding.fix);
    (finding.id, finding.severity, evidence, fix)
}

/// With `#` for each UID and number.
fn without_numbers(text: &str) -> Vec<u8> {
    let is_inside = |b: &u8| b.is_ascii_hexdigit() || *b == b'-';
    let runs = text
        .as_bytes()
        .chunk_by(|a, b| is_inside(a) == is_inside(b));
    let has_digit = |run: &[u8]| run.iter().any(u8::is_ascii_digit);
    let shape = runs.flat_map(|run| if has_digit(run) { b"#" } else { run });
    shape.copied().collect()
}

// === impl Alike ===

impl Alike<'_> {
    /// Which others there are, if there are any.
    pub(super) fn others(&self) -> Option<String> {
        let named = self.others.iter().take(NAMED);
        let named = named.copied().collect::<Vec<_>>().join(", ");
        match self.others.len().checked_sub(NAMED) {
            _ if self.others.is_empty() => None,
            None | Some(0) => Some(named),
            Some(more) => Some(format!("{named} and {more} more (--json lists all)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(file: &str, evidence: &str) -> Finding {
        Finding::warning("an-id", file, evidence, format!("chmod 0644 {file}"))
    }

    #[test]
    fn findings_that_differ_in_subject_and_numbers_are_alike() {
        let uid = |n| format!("0a{n}-11bb of channel{n}");
        let findings: Vec<Finding> = (0..5)
            .map(|n| of_file(&format!("/f{n}"), &uid(n)))
            .collect();
        let alike = alike(&findings);
        assert_eq!(alike.len(), 1);
        let told = "/f1, /f2 and 2 more (--json lists all)";
        assert_eq!(alike[0].others().as_deref(), Some(told));
    }

    #[test]
    fn what_else_differs_is_told_apart() {
        let findings = [
            of_file("/a", "nobody may read it"),
            of_file("/b", "everybody may write it"),
            Finding::error("an-id", "/c", "nobody may read it", "chmod 0644 /c"),
            Finding::warning("an-id", "/d", "nobody may read it", "chmod 0755 /d"),
            of_file("/e", "nobody may read it"),
        ];
        let alike = alike(&findings);
        let firsts: Vec<&str> = alike.iter().map(|it| it.first.subject.as_str()).collect();
        assert_eq!(firsts, ["/a", "/b", "/c", "/d"]);
        let others: Vec<_> = alike.iter().map(Alike::others).collect();
        assert_eq!(others, [Some("/e".to_owned()), None, None, None]);
    }
}
