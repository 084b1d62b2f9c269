//! The places in code and tests that cite requirements.

use crate::id::Id;
use crate::sources::Source;

/// All citations, and malformed ones.
#[derive(Debug, Default)]
pub(crate) struct Citations {
    pub(crate) found: Vec<Citation>,
    /// Complete messages with path and line.
    pub(crate) problems: Vec<String>,
}

/// One id of a line such as `// req: CDI-1, CDI-2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Citation {
    pub(crate) id: Id,
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

/// The kind of the citing code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Implementation,
    Test,
}

/// The beginnings of comments in all languages.
const OPENERS: [&str; 5] = ["{{- /*", "{{/*", "//", "#", "*"];
/// The ends of block comments.
const CLOSERS: [&str; 2] = ["*/ -}}", "*/}}"];
const MARK: &str = "req: ";

/// The citations of all sources, in their order.
pub(crate) fn of_all(sources: &[Source]) -> Citations {
    let mut citations = Citations::default();
    for source in sources {
        citations.read(source);
    }
    citations
}

// === impl Citations ===

impl Citations {
    fn read(&mut self, source: &Source) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (index, text) in lines.iter().enumerate() {
            let line = index + 1;
            let cited = ids_of(text).and_then(|ids| match ids.as_slice() {
                [] => Ok((ids, Kind::Implementation)),
                _ => Ok((ids, kind_of(&source.path, lines.iter().skip(line))?)),
            });
            match cited {
                Ok((ids, kind)) => self.found.extend(ids.into_iter().map(|id| Citation {
                    id,
                    path: source.path.clone(),
                    line,
                    kind,
                })),
                Err(problem) => {
                    let at = format!("{}:{line}", source.path);
                    self.problems.push(format!("{at}: {problem}: {text}"));
                }
            }
        }
    }
}

/// The kind of the item below a citation.
fn kind_of<'a>(path: &str, below: impl Iterator<Item = &'a &'a str>) -> Result<Kind, &'static str> {
    let is_rust = path.rsplit('.').next() == Some("rs");
    let mut below = below.map(|line| line.trim()).peekable();
    if below.peek().is_none_or(|line| line.is_empty()) {
        return Err("is not directly above the item that it describes");
    }
    let is_before = |line: &&str| line.starts_with("//") || line.starts_with("#[");
    let is_test = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    if is_rust && below.take_while(is_before).any(is_test) {
        return Ok(Kind::Test);
    }
    match is_test_file(path) {
        true if is_rust => Err("is in a test file but not above a test"),
        true => Ok(Kind::Test),
        false => Ok(Kind::Implementation),
    }
}

/// The ids that the line cites; none if it is not a citation.
fn ids_of(line: &str) -> Result<Vec<Id>, &'static str> {
    let text = line.trim();
    let comment = OPENERS.iter().find_map(|o| text.strip_prefix(o));
    let Some(cited) = comment.and_then(|comment| comment.trim_start().strip_prefix(MARK)) else {
        let begins_with_id =
            |text: &str| Id::parse(text.split([',', ' ']).next().unwrap_or("")).is_some();
        if line.split(MARK).skip(1).any(begins_with_id) {
            return Err("a citation is a comment on a line of its own");
        }
        return Ok(Vec::new());
    };
    let end = CLOSERS.iter().find_map(|c| cited.strip_suffix(c));
    let ids = end.unwrap_or(cited).trim().split(", ");
    ids.map(|id| Id::parse(id).ok_or("is not a list of ids such as `req: CDI-1, CDI-2`"))
        .collect()
}

/// Whether the file has only tests. In Rust, a test also needs its attribute.
fn is_test_file(path: &str) -> bool {
    let mut parts = path.split('/');
    let stem = parts.next_back().and_then(|name| name.split('.').next());
    let stem = stem.unwrap_or_default();
    stem == "tests"
        || stem == "test"
        || stem.ends_with("_tests")
        || path.starts_with("hack/cluster-tests/")
        || path.starts_with("hack/fuzz/")
        || parts.any(|part| part == "tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn citations(path: &str, text: &str) -> Citations {
        of_all(&[Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }])
    }

    fn found(path: &str, text: &str) -> Vec<(String, usize, Kind)> {
        let citations = citations(path, text);
        assert_eq!(citations.problems, Vec::<String>::new());
        let found = citations.found.into_iter();
        found.map(|c| (c.id.to_string(), c.line, c.kind)).collect()
    }

    #[test]
    fn a_comment_of_any_language_is_a_citation() {
        for line in [
            "    // req: CDI-1, CDI-2",
            "# req: CDI-1, CDI-2",
            "{{- /* req: CDI-1, CDI-2 */}}",
            "{{- /* req: CDI-1, CDI-2 */ -}}",
            "{{/* req: CDI-1, CDI-2 */}}",
        ] {
            let text = format!("x\n{line}\ny\n");
            let expected = ["CDI-1", "CDI-2"].map(|id| (id.to_owned(), 2, Kind::Implementation));
            assert_eq!(found("cdi/src/lib.rs", &text), expected, "{line}");
        }
    }

    #[test]
    fn other_lines_are_not_citations() {
        for line in [
            "let req: Request = x;",
            "// req: how it is asked",
            "// the req",
            "",
        ] {
            let is_refused = line.starts_with("// req: ");
            let citations = citations("a/src/b.rs", line);
            assert_eq!(citations.found, Vec::new(), "{line}");
            assert_eq!(!citations.problems.is_empty(), is_refused, "{line}");
        }
    }

    #[test]
    fn a_malformed_citation_is_a_problem_with_path_and_line() {
        for (text, problem) in [
            ("x\n// req: CDI-1 CDI-2\ny", "a.rs:2: is not a list of ids"),
            ("x\n// req: CDI-1,CDI-2\ny", "a.rs:2: is not a list of ids"),
            ("x\n// req: cdi-1\ny", "a.rs:2: is not a list of ids"),
            (
                "x\nfn a() {} // req: CDI-1\ny",
                "a.rs:2: a citation is a comment on",
            ),
            ("x\n// req: CDI-1\n\ny", "a.rs:2: is not directly above"),
        ] {
            let problems = citations("a.rs", text).problems;
            assert!(
                problems.len() == 1 && problems[0].starts_with(problem),
                "{text}: {problems:?}"
            );
        }
    }

    #[test]
    fn the_item_below_and_the_path_distinguish_tests_from_implementations() {
        let citation = "// req: CDI-1\n";
        for (path, below, kind) in [
            ("cdi/src/lib.rs", "fn a() {}", Some(Kind::Implementation)),
            (
                "cdi/src/lib.rs",
                "/// A.\n#[must_use]\nfn a() {}",
                Some(Kind::Implementation),
            ),
            ("cdi/src/lib.rs", "#[test]\nfn a() {}", Some(Kind::Test)),
            (
                "cdi/src/lib.rs",
                "// b\n#[ignore]\n#[tokio::test(x)]\nfn a() {}",
                Some(Kind::Test),
            ),
            (
                "cdi/src/lib.rs",
                "fn a() {}\n#[test]\nfn b() {}",
                Some(Kind::Implementation),
            ),
            ("cdi/tests/a.rs", "#[test]\nfn a() {}", Some(Kind::Test)),
            ("cdi/tests/a.rs", "fn helper() {}", None),
            ("cdi/src/a_tests.rs", "fn helper() {}", None),
            ("cdi/src/a/tests.rs", "fn helper() {}", None),
            ("hack/cluster-tests/src/node.rs", "fn helper() {}", None),
            (
                "deployments/helm/imex-dra/templates/a.yaml",
                "x",
                Some(Kind::Implementation),
            ),
            ("deployments/helm/test.sh", "x", Some(Kind::Test)),
        ] {
            let citations = citations(path, &format!("{citation}{below}\n"));
            let kinds: Vec<_> = citations.found.iter().map(|it| it.kind).collect();
            assert_eq!(kinds, Vec::from_iter(kind), "{path}: {below}");
            assert_eq!(
                citations.problems.len(),
                usize::from(kind.is_none()),
                "{path}"
            );
        }
    }
}
