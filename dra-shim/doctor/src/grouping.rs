//! Groups findings that differ only in their subject: a reload of the driver makes every
//! spec stale.

use std::collections::HashMap;

use crate::finding::{Finding, Severity};

/// Findings with one cause and one fix, about several subjects.
#[derive(Debug)]
pub struct FindingGroup<'a> {
    /// The first finding, shown for all.
    pub first: &'a Finding,
    /// The subjects of the others, in order.
    pub other_subjects: Vec<&'a str>,
}

/// What the findings of a group have in common.
type Key = (&'static str, Severity, Vec<u8>, String);

/// Groups findings that differ only in their subject and in numbers, in the
/// order of each group's first finding.
pub fn group_findings(findings: &[Finding]) -> Vec<FindingGroup<'_>> {
    let mut groups: Vec<FindingGroup<'_>> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    for finding in findings {
        let place = *places.entry(key(finding)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.other_subjects.push(&finding.subject),
            None => groups.push(FindingGroup {
                first: finding,
                other_subjects: vec![],
            }),
        }
    }
    groups
}

/// The group of a finding: its subject, numbers and UIDs do not count.
fn key(finding: &Finding) -> Key {
    let without_subject = |text: &str| text.replace(&finding.subject, "\0");
    let evidence = without_numbers(&without_subject(&finding.evidence));
    let fix = without_subject(&finding.fix);
    (finding.id, finding.severity, evidence, fix)
}

/// The text with `#` for each UID and number.
fn without_numbers(text: &str) -> Vec<u8> {
    let is_inside = |b: &u8| b.is_ascii_hexdigit() || *b == b'-';
    let runs = text
        .as_bytes()
        .chunk_by(|a, b| is_inside(a) == is_inside(b));
    let has_digit = |run: &[u8]| run.iter().any(u8::is_ascii_digit);
    let shape = runs.flat_map(|run| if has_digit(run) { b"#" } else { run });
    shape.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(file: &str, evidence: &str) -> Finding {
        Finding::warning("an-id", file, evidence, format!("chmod 0644 {file}"))
    }

    #[test]
    fn findings_that_differ_in_subject_and_numbers_are_one_group() {
        let uid = |n| format!("0a{n}-11bb of channel{n}");
        let findings: Vec<Finding> = (0..5).map(|n| about(&format!("/f{n}"), &uid(n))).collect();
        let groups = group_findings(&findings);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].first.subject, "/f0");
        assert_eq!(groups[0].other_subjects, ["/f1", "/f2", "/f3", "/f4"]);
    }

    #[test]
    fn any_other_difference_makes_a_group() {
        let findings = [
            about("/a", "nobody may read it"),
            about("/b", "everybody may write it"),
            Finding::error("an-id", "/c", "nobody may read it", "chmod 0644 /c"),
            Finding::warning("an-id", "/d", "nobody may read it", "chmod 0755 /d"),
            about("/e", "nobody may read it"),
        ];
        let groups = group_findings(&findings);
        let firsts: Vec<&str> = groups.iter().map(|it| it.first.subject.as_str()).collect();
        assert_eq!(firsts, ["/a", "/b", "/c", "/d"]);
        let others: Vec<_> = groups.iter().map(|it| it.other_subjects.len()).collect();
        assert_eq!(others, [1, 0, 0, 0]);
    }
}
