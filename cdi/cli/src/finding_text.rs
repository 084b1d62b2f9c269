//! Findings as text.

use std::io::{self, Write};

use host_doctor::{Finding, FindingGroup, Severity, group_findings};

use crate::escape::escape;
use crate::terminal::Style;

/// How many other subjects of a group are named.
const NAMED_SUBJECTS: usize = 2;

/// Writes findings in groups of equal ones, with an empty line after each.
pub(crate) fn write_findings(
    findings: &[Finding],
    style: Style,
    output: &mut impl Write,
) -> io::Result<()> {
    for group in group_findings(findings) {
        write_group(&group, style, output)?;
    }
    Ok(())
}

fn write_group(group: &FindingGroup<'_>, style: Style, output: &mut impl Write) -> io::Result<()> {
    let finding = group.first;
    let severity = finding.severity.as_str();
    let severity = match finding.severity {
        Severity::Error => style.red(severity),
        Severity::Warning => style.yellow(severity),
        Severity::Info => severity.to_owned(),
    };
    let subject = escape(&finding.subject);
    writeln!(output, "{severity}: {subject} [{}]", finding.id)?;
    writeln!(output, "  {}", escape(&finding.evidence))?;
    writeln!(output, "  fix: {}", escape(&finding.fix))?;
    if let Some(others) = other_subjects(&group.other_subjects) {
        writeln!(output, "  likewise: {}", escape(&others))?;
    }
    writeln!(output)
}

/// The first ones, and the number of the rest; `None` if there are none.
fn other_subjects(subjects: &[&str]) -> Option<String> {
    let named: Vec<&str> = subjects.iter().take(NAMED_SUBJECTS).copied().collect();
    let named = named.join(", ");
    match subjects.len().checked_sub(NAMED_SUBJECTS) {
        _ if subjects.is_empty() => None,
        None | Some(0) => Some(named),
        Some(more) => Some(format!("{named} and {more} more (--json lists all)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_other_subjects_are_named_and_the_rest_counted() {
        assert_eq!(other_subjects(&[]), None);
        assert_eq!(other_subjects(&["/e"]).as_deref(), Some("/e"));
        assert_eq!(other_subjects(&["/e", "/f"]).as_deref(), Some("/e, /f"));
        let more = "/f1, /f2 and 2 more (--json lists all)";
        let others = other_subjects(&["/f1", "/f2", "/f3", "/f4"]);
        assert_eq!(others.as_deref(), Some(more));
    }
}
