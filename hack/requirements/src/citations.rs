//! Where requirements are met, and where that is tested.

use crate::id::Id;
use crate::sources::Source;

/// All citations, and what is wrong with some lines.
#[derive(Debug, Default)]
pub(crate) struct Citations {
    pub(crate) found: Vec<Citation>,
    /// Whole sentences with their places.
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

/// What the citing code is, by the place where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Implementation,
    Test,
}

/// What begins a comment, in any of the languages.
const OPENERS: [&str; 5] = ["{{- /*", "{{/*", "//", "#", "*"];
/// What ends one that has an end.
const CLOSERS: [&str; 2] = ["*/ -}}", "*/}}"];
const MARK: &str = "req: ";

/// Of all sources, in their order.
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
        let file = if is_test_file(&source.path) {
            Kind::Test
        } else {
            Kind::Implementation
        };
        let mut modules = TestModules::default();
        let mut is_dangling = false;
        for (line, text) in (1..).zip(source.text.lines()) {
            let within = modules.step(text);
            let kind = if within { Kind::Test } else { file };
            let at = format!("{}:{line}", source.path);
            if is_dangling && text.trim().is_empty() {
                let problem = "stands above an empty line instead of what it is about";
                self.problems.push(format!("{at}: a citation {problem}"));
            }
            let ids = match ids_of(text) {
                Ok(ids) => ids,
                Err(problem) => {
                    self.problems.push(format!("{at}: {problem}: {text}"));
                    Vec::new()
                }
            };
            is_dangling = !ids.is_empty();
            self.found.extend(ids.into_iter().map(|id| Citation {
                id,
                path: source.path.clone(),
                line,
                kind,
            }));
        }
    }
}

/// The ids that the line cites; none if it is no citation.
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
    ids.map(|id| Id::parse(id).ok_or("is no list of ids such as `req: CDI-1, CDI-2`"))
        .collect()
}

/// Tests are known by where they are, as people find them.
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

/// Follows the modules of a file of Rust that are for tests only. As rustfmt
/// writes them: the brace that ends one is indented as its `mod`.
#[derive(Debug, Default)]
struct TestModules {
    /// The line before was the attribute.
    is_announced: bool,
    /// The line that ends the module.
    end: Option<String>,
}

// === impl TestModules ===

impl TestModules {
    /// Whether the line is within one.
    fn step(&mut self, line: &str) -> bool {
        if let Some(end) = &self.end {
            if line == end {
                self.end = None;
            }
            return true;
        }
        let text = line.trim_start();
        if self.is_announced && text.starts_with("mod ") && text.ends_with('{') {
            let indentation = line.len() - text.len();
            self.end = Some(format!("{}}}", " ".repeat(indentation)));
        }
        self.is_announced = text == "#[cfg(test)]" || (self.is_announced && text.starts_with('#'));
        self.end.is_some()
    }
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
    fn other_lines_are_none() {
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
    fn a_citation_that_is_written_wrong_is_a_problem_with_its_place() {
        for (text, problem) in [
            ("x\n// req: CDI-1 CDI-2\ny", "a.rs:2: is no list of ids"),
            ("x\n// req: CDI-1,CDI-2\ny", "a.rs:2: is no list of ids"),
            ("x\n// req: cdi-1\ny", "a.rs:2: is no list of ids"),
            (
                "x\nfn a() {} // req: CDI-1\ny",
                "a.rs:2: a citation is a comment on",
            ),
            (
                "x\n// req: CDI-1\n\ny",
                "a.rs:3: a citation stands above an empty",
            ),
        ] {
            let problems = citations("a.rs", text).problems;
            assert!(
                problems.len() == 1 && problems[0].starts_with(problem),
                "{text}: {problems:?}"
            );
        }
    }

    #[test]
    fn the_place_tells_tests_from_what_they_test() {
        for (path, kind) in [
            ("cdi/src/lib.rs", Kind::Implementation),
            ("dra-shim/kubelet/src/testing/call.rs", Kind::Implementation),
            (
                "deployments/helm/imex-dra/templates/a.yaml",
                Kind::Implementation,
            ),
            ("cdi/tests/runc.rs", Kind::Test),
            ("controller/src/worker/tests/life.rs", Kind::Test),
            ("dra-shim/node/src/guard_tests.rs", Kind::Test),
            ("dra-shim/src/nri_guard/tests.rs", Kind::Test),
            ("hack/cluster-tests/src/node.rs", Kind::Test),
            ("deployments/helm/test.sh", Kind::Test),
        ] {
            let expected = [("CDI-1".to_owned(), 1, kind)];
            assert_eq!(found(path, "# req: CDI-1\nx"), expected, "{path}");
        }
    }

    #[test]
    fn a_module_of_tests_ends_at_its_brace() {
        let text = "// req: CDI-1\nfn a() {\n}\n\
                    #[cfg(test)]\nmod elsewhere;\n// req: CDI-2\nfn b() {}\n\
                    #[cfg(test)]\n#[allow(x)]\nmod tests {\n    // req: CDI-3\n    fn c() {\n    }\n\
                    \x20   // req: CDI-4\n    fn d() {}\n}\n// req: CDI-5\nfn e() {}\n";
        let kinds: Vec<_> = found("a/src/b.rs", text).into_iter().map(|f| f.2).collect();
        let (out, within) = (Kind::Implementation, Kind::Test);
        assert_eq!(kinds, [out, out, within, within, out]);
    }
}
