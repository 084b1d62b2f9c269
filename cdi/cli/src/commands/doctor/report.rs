//! The report of `doctor`.

use std::io::{self, Write};
use std::path::Path;

use host_doctor::{Area, AreaState, Diagnosis, Severity, counted, shell_quote};
use serde::Serialize;

use crate::escape::escape;
use crate::finding_text::write_findings;
use crate::output::Report;
use crate::terminal::Style;

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DoctorReport {
    schema: &'static str,
    root: String,
    /// How to run the fixes from here, if that is not on the host.
    run_fixes: Option<String>,
    /// Whether there is neither an error nor a warning.
    pub(super) healthy: bool,
    #[serde(flatten)]
    diagnosis: Diagnosis,
}

// === impl DoctorReport ===

impl DoctorReport {
    pub(super) fn new(root: &Path, diagnosis: Diagnosis) -> Self {
        Self {
            schema: "cdi-gen/doctor/v1",
            root: root.display().to_string(),
            run_fixes: run_fixes(root),
            healthy: diagnosis.is_healthy(),
            diagnosis,
        }
    }

    /// The report for a bundle, without evidence that may quote a file.
    pub(super) fn redacted(&self) -> Self {
        Self {
            diagnosis: self.diagnosis.redacted(),
            ..self.clone()
        }
    }

    fn verdict(&self) -> String {
        let findings = &self.diagnosis.findings;
        let count = |severity| findings.iter().filter(|it| it.severity == severity).count();
        match (count(Severity::Error), count(Severity::Warning)) {
            (0, 0) => "healthy".to_owned(),
            (errors, warnings) => format!(
                "not healthy: {}, {}",
                counted(errors, "error"),
                counted(warnings, "warning")
            ),
        }
    }
}

impl Report for DoctorReport {
    /// The findings in groups, then a line for each area.
    fn write_text(&self, style: Style, output: &mut impl Write) -> io::Result<()> {
        write_findings(&self.diagnosis.findings, style, output)?;
        for area in &self.diagnosis.areas {
            write_area(area, style, output)?;
        }
        writeln!(output)?;
        writeln!(output, "{}", self.verdict())?;
        match &self.run_fixes {
            Some(how) if !self.healthy => writeln!(output, "{}", escape(how)),
            _ => Ok(()),
        }
    }
}

/// The programs and files that fixes name are the host's.
fn run_fixes(root: &Path) -> Option<String> {
    let root = root.to_string_lossy();
    (root != "/").then(|| {
        format!(
            "run the suggested commands on the host, or here after `chroot {}`; cdi-gen and \
             kubectl commands work here directly",
            shell_quote(&root)
        )
    })
}

fn write_area(area: &Area, style: Style, output: &mut impl Write) -> io::Result<()> {
    let padded = format!("{:<7}", area.state.as_str());
    let state = match area.state {
        AreaState::Error => style.red(&padded),
        AreaState::Warning => style.yellow(&padded),
        AreaState::Ok => style.green(&padded),
        AreaState::Skipped | AreaState::Info => padded,
    };
    writeln!(
        output,
        "{:<11}  {state}  {}",
        area.name,
        escape(&area.summary)
    )
}
