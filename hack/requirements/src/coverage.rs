//! Compares requirements with their citations in code and tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::catalogue::{Catalogue, Exception, Requirement};
use crate::citations::{Citations, Kind};
use crate::id::Id;

/// The result of the comparison.
#[derive(Debug)]
pub(crate) struct Coverage {
    /// By page, in the order of names.
    pages: BTreeMap<String, Counts>,
    problems: Vec<String>,
}

/// One line of the table.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    requirements: usize,
    implemented: usize,
    tested: usize,
    exceptions: usize,
}

// === impl Coverage ===

impl Coverage {
    pub(crate) fn new(catalogue: &Catalogue, citations: &Citations) -> Self {
        let cited_as = |kind| -> BTreeSet<&Id> {
            let found = citations.found.iter();
            found.filter(|c| c.kind == kind).map(|c| &c.id).collect()
        };
        let (implemented, tested) = (cited_as(Kind::Implementation), cited_as(Kind::Test));
        let mut problems = [&catalogue.problems[..], &citations.problems[..]].concat();
        let mut pages: BTreeMap<String, Counts> = BTreeMap::new();
        let mut known: BTreeMap<&Id, &Requirement> = BTreeMap::new();
        for requirement in &catalogue.requirements {
            let Requirement {
                id,
                path,
                line,
                exceptions,
            } = requirement;
            if let Some(first) = known.insert(id, requirement) {
                let (path_of_first, line_of_first) = (&first.path, first.line);
                problems.push(format!(
                    "{path}:{line}: {id} is already defined in {path_of_first}:{line_of_first}"
                ));
            }
            let is_implemented = implemented.contains(id);
            let is_tested = tested.contains(id);
            let counts = pages.entry(path.clone()).or_default();
            counts.requirements += 1;
            counts.implemented += usize::from(is_implemented);
            counts.tested += usize::from(is_tested);
            counts.exceptions += usize::from(!exceptions.is_empty());
            if let Some(problem) = problem_of(exceptions, is_implemented, is_tested) {
                problems.push(format!("{path}:{line}: {id} {problem}"));
            }
        }
        for citation in &citations.found {
            if !known.contains_key(&citation.id) {
                let (path, line, id) = (&citation.path, citation.line, &citation.id);
                problems.push(format!("{path}:{line}: there is no requirement {id}"));
            }
        }
        Self { pages, problems }
    }

    /// Complete messages with path and line.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// One line for each page, and the totals.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<40} {:>12} {:>11} {:>6} {:>10}\n",
            "page", "requirements", "implemented", "tested", "exceptions"
        );
        let mut all = Counts::default();
        let rows = self
            .pages
            .iter()
            .map(|(page, counts)| (page.as_str(), *counts));
        for (page, counts) in rows {
            all.requirements += counts.requirements;
            all.implemented += counts.implemented;
            all.tested += counts.tested;
            all.exceptions += counts.exceptions;
            counts.write(page, &mut text);
        }
        all.write("all", &mut text);
        text
    }
}

/// `None` if the citations match the exceptions.
fn problem_of(
    exceptions: &[Exception],
    is_implemented: bool,
    is_tested: bool,
) -> Option<&'static str> {
    let is_excused = |exception| exceptions.contains(&exception);
    let not_implemented = is_excused(Exception::NotImplemented);
    let not_tested = is_excused(Exception::NotTested);
    match (is_implemented, is_tested) {
        (true, _) if not_implemented => Some("is marked as not implemented, but code cites it"),
        (_, true) if not_tested => Some("is marked as not tested, but a test cites it"),
        (false, _) if !not_implemented => Some("is cited by no code"),
        (_, false) if !not_tested && !not_implemented => Some("is cited by no test"),
        _ => None,
    }
}

// === impl Counts ===

impl Counts {
    fn write(self, name: &str, text: &mut String) {
        let Self {
            requirements,
            implemented,
            tested,
            exceptions,
        } = self;
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "{name:<40} {requirements:>12} {implemented:>11} {tested:>6} {exceptions:>10}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::citations;
    use crate::sources::Source;

    fn mk_source(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn mk_coverage(page: &str, code: &str, test: &str) -> Coverage {
        let catalogue = Catalogue::parse(&[mk_source("docs/requirements/cdi.md", page)]);
        let code = [
            mk_source("a/src/a.rs", &format!("{code}fn a() {{}}\n")),
            mk_source("a/tests/a.rs", &format!("{test}#[test]\nfn a() {{}}\n")),
        ];
        Coverage::new(&catalogue, &citations::of_all(&code))
    }

    #[test]
    fn a_requirement_that_code_and_a_test_cite_is_covered() {
        let coverage = mk_coverage("* **CDI-1** Text.\n", "// req: CDI-1\n", "// req: CDI-1\n");
        assert_eq!(coverage.problems(), Vec::<String>::new());
        let table = coverage.table();
        let lines: Vec<_> = table
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>())
            .collect();
        assert_eq!(lines[1], ["docs/requirements/cdi.md", "1", "1", "1", "0"]);
        assert_eq!(lines[2], ["all", "1", "1", "1", "0"]);
    }

    #[test]
    fn every_combination_of_citations_and_exceptions_has_its_result() {
        const NOT_IMPLEMENTED: &str = "  * Not implemented: why\n";
        const NOT_TESTED: &str = "  * Not tested: why\n";
        let no_code = Some("is cited by no code");
        let no_test = Some("is cited by no test");
        let stale_code = Some("is marked as not implemented, but code cites it");
        let stale_test = Some("is marked as not tested, but a test cites it");
        for (exception, [both, code, test, none]) in [
            ("", [None, no_test, no_code, no_code]),
            (NOT_IMPLEMENTED, [stale_code, stale_code, None, None]),
            (NOT_TESTED, [stale_test, None, stale_test, no_code]),
        ] {
            for (has_code, has_test, expected) in [
                (true, true, both),
                (true, false, code),
                (false, true, test),
                (false, false, none),
            ] {
                let cite = |is_cited| if is_cited { "// req: CDI-1\n" } else { "" };
                let page = format!("* **CDI-1** Text.\n{exception}");
                let coverage = mk_coverage(&page, cite(has_code), cite(has_test));
                let expected: Vec<_> = expected
                    .map(|problem| format!("docs/requirements/cdi.md:1: CDI-1 {problem}"))
                    .into_iter()
                    .collect();
                assert_eq!(
                    coverage.problems(),
                    expected,
                    "{page} {has_code} {has_test}"
                );
            }
        }
    }

    #[test]
    fn an_unknown_or_duplicate_id_is_a_problem() {
        let cited = "// req: CDI-1\n// req: CDI-9\n";
        let page = "* **CDI-1** Text.\n* **CDI-1** Other.\n";
        let coverage = mk_coverage(page, cited, "// req: CDI-1\n");
        assert_eq!(
            coverage.problems(),
            [
                "docs/requirements/cdi.md:2: CDI-1 is already defined in docs/requirements/cdi.md:1",
                "a/src/a.rs:2: there is no requirement CDI-9",
            ]
        );
    }

    #[test]
    fn problems_of_both_sides_are_kept() {
        let coverage = mk_coverage("* **CDI** Text.\n", "// req: CDI\n", "");
        assert_eq!(coverage.problems().len(), 2);
    }
}
