//! The requirements in the pages.

use crate::id::Id;
use crate::sources::Source;

/// All requirements, and the errors in their pages.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    /// In the order of pages and lines. An id may occur twice.
    pub(crate) requirements: Vec<Requirement>,
    /// Complete messages with path and line.
    pub(crate) problems: Vec<String>,
}

/// One item of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) id: Id,
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) exceptions: Vec<Exception>,
}

/// An exception from a requirement; the reason is for readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exception {
    NotImplemented,
    NotTested,
}

// === impl Catalogue ===

impl Catalogue {
    /// An item begins with `* **ID** text`; its exceptions are items below it.
    pub(crate) fn parse(pages: &[Source]) -> Self {
        let mut catalogue = Self::default();
        for page in pages {
            let mut item_is_open = false;
            for (line, text) in (1..).zip(page.text.lines()) {
                let problem = if let Some(item) = text.strip_prefix("* **") {
                    let read = catalogue.begin(&page.path, line, item);
                    item_is_open = read.is_ok();
                    read.err()
                } else if let Some(below) = text.strip_prefix("  * ") {
                    match catalogue.requirements.last_mut() {
                        Some(requirement) if item_is_open => requirement.except(below).err(),
                        _ => Some("is below no requirement"),
                    }
                } else {
                    item_is_open &= text.is_empty() || text.starts_with(' ');
                    None
                };
                if let Some(problem) = problem {
                    let at = format!("{}:{line}", page.path);
                    catalogue.problems.push(format!("{at}: {problem}: {text}"));
                }
            }
        }
        catalogue
    }

    fn begin(&mut self, path: &str, line: usize, item: &str) -> Result<(), &'static str> {
        let (id, text) = item.split_once("** ").ok_or("is not `* **ID** text`")?;
        let id = Id::parse(id).ok_or("has no id such as CDI-1")?;
        if text.trim().is_empty() {
            return Err("has no text");
        }
        self.requirements.push(Requirement {
            id,
            path: path.to_owned(),
            line,
            exceptions: Vec::new(),
        });
        Ok(())
    }
}

// === impl Requirement ===

impl Requirement {
    fn except(&mut self, below: &str) -> Result<(), &'static str> {
        let (kind, reason) = below.split_once(": ").unwrap_or((below, ""));
        let exception = match kind.trim_end_matches(':') {
            "Not implemented" => Exception::NotImplemented,
            "Not tested" => Exception::NotTested,
            _ => return Err("is neither `Not implemented: reason` nor `Not tested: reason`"),
        };
        if reason.trim().is_empty() {
            return Err("has no reason");
        }
        self.exceptions.push(exception);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Catalogue {
        let page = Source {
            path: "docs/requirements/cdi.md".to_owned(),
            text: text.to_owned(),
        };
        Catalogue::parse(&[page])
    }

    #[test]
    fn items_are_requirements_and_items_below_them_are_exceptions() {
        let catalogue = parse(
            "# CDI\n\nText, and a list:\n\n* not a requirement\n\n\
             * **CDI-1** One thing\n  on two lines.\n\
             * **CDI-2** Another.\n  * Not tested: no runtime\n    here has it.\n",
        );
        let found: Vec<_> = catalogue
            .requirements
            .iter()
            .map(|r| (r.id.to_string(), r.line, r.exceptions.clone()))
            .collect();
        let not_tested = vec![Exception::NotTested];
        assert_eq!(
            found,
            [
                ("CDI-1".to_owned(), 7, vec![]),
                ("CDI-2".to_owned(), 9, not_tested)
            ]
        );
        assert_eq!(catalogue.problems, Vec::<String>::new());
    }

    #[test]
    fn a_malformed_item_is_a_problem_with_path_and_line() {
        for (text, problem) in [
            ("* **CDI 1** Text.\n", "has no id"),
            ("* **CDI-1**Text.\n", "is not `* **ID** text`"),
            ("* **CDI-1**  \n", "has no text"),
            ("  * Not tested: why\n", "is below no requirement"),
            (
                "* **CDI-1** Text.\n\nElse.\n  * Not tested: why\n",
                "is below no",
            ),
            ("* **CDI-1** Text.\n  * Not tested:\n", "has no reason"),
            ("* **CDI-1** Text.\n  * Exception: why\n", "is neither"),
        ] {
            let problems = parse(text).problems;
            let line = text.lines().count();
            let at = format!("docs/requirements/cdi.md:{line}: {problem}");
            assert!(
                problems.len() == 1 && problems[0].starts_with(&at),
                "{text}: {problems:?}"
            );
        }
    }
}
