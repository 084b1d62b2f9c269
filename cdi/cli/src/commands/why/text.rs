//! A [`WhyReport`] for people: the answer, a line for each file or node that
//! matters, the fix.

use std::io::{self, Write};

use super::report::{Answer, CandidateReport, IgnoredReport, NearMissReport, UnreadDir, WhyReport};
use crate::escape::escape;
use crate::output::Report;
use crate::terminal::Style;

/// More near misses do not help: the name is too common.
const MOST_NEAR_MISSES: usize = 5;

impl Report for WhyReport {
    fn write_text(&self, _: Style, output: &mut impl Write) -> io::Result<()> {
        for line in lines(self) {
            writeln!(output, "{}", escape(&line))?;
        }
        Ok(())
    }
}

/// Not escaped.
pub(super) fn lines(report: &WhyReport) -> Vec<String> {
    let mut lines = vec![answer(report)];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<8}  {text}"));
    for candidate in &report.candidates {
        line(candidate.verdict, describe_candidate(candidate));
    }
    for file in &report.ignored {
        line("ignored", describe_ignored(file));
    }
    if report.ignored_cut {
        line("ignored", "not all ignored files were examined".to_owned());
    }
    for node in &report.nodes {
        let declared = node.declared.as_ref();
        let declared = declared.map_or_else(String::new, |numbers| format!(" {numbers}"));
        line(
            "node",
            format!("{}{declared}: {}", node.path, node.host_side()),
        );
    }
    if !report.resolves {
        alternatives(report, &mut line);
    }
    if let Some(fix) = &report.fix {
        line("fix", fix.to_string());
    }
    lines
}

fn answer(report: &WhyReport) -> String {
    let WhyReport { name, message, .. } = report;
    let message = message.as_deref().unwrap_or("the reason is unknown");
    let file = report.file.as_deref().unwrap_or_default();
    match report.answer {
        Answer::Resolves => format!("{name} resolves to {file}"),
        Answer::Unusable => format!("{name} resolves to {file}, but {message}"),
        Answer::Unresolved => format!("{name} does not resolve: {message}"),
        Answer::Unknown => {
            format!("cannot determine whether {name} resolves: among the readable files, {message}")
        }
    }
}

/// What there is instead of a device that does not resolve.
fn alternatives(report: &WhyReport, line: &mut impl FnMut(&str, String)) {
    for near in report.near_misses.iter().take(MOST_NEAR_MISSES) {
        let NearMissReport {
            name, file, fix, ..
        } = near;
        line("near", format!("{name} in {file}; {fix}"));
    }
    if report.near_misses.len() > MOST_NEAR_MISSES {
        let more = report.near_misses.len() - MOST_NEAR_MISSES;
        line("near", format!("{more} more (--json lists them)"));
    }
    for UnreadDir { path, message, fix } in &report.unread_dirs {
        let fix = fix.map_or_else(String::new, |fix| format!("; {fix}"));
        let place = if message.contains(path.as_str()) {
            String::new()
        } else {
            format!("{path} ")
        };
        line("unread", format!("{place}{message}{fix}"));
    }
    let name = &report.name;
    let kind = name.split_once('=').map_or(name.as_str(), |(kind, _)| kind);
    match report.others_of_kind {
        // The lines about the candidate files are more useful.
        0 if !report.candidates.is_empty() || !report.ignored.is_empty() => {}
        0 => line("others", format!("no device name of kind {kind} resolves")),
        1 => line(
            "others",
            format!("1 other device name of kind {kind} resolves"),
        ),
        n => line(
            "others",
            format!("{n} other device names of kind {kind} resolve"),
        ),
    }
}

fn describe_candidate(candidate: &CandidateReport) -> String {
    let CandidateReport {
        file,
        verdict,
        by,
        message,
        fix,
        evidence,
        ..
    } = candidate;
    let by = by.join(", ");
    let why = match (*verdict, message) {
        (_, Some(message)) => {
            let evidence = match *evidence {
                Some("text") => " (its text contains the name)",
                Some("file-name") => " (its file name matches the kind)",
                _ => "",
            };
            return match fix {
                Some(fix) => format!("{message}{evidence}; {fix}"),
                None => format!("{message}{evidence}"),
            };
        }
        ("shadowed", _) => format!(": {by} is in a directory of higher priority"),
        ("conflict", _) => format!(": {by} in the same directory also defines the device"),
        ("voided", _) => format!(": conflict in another directory, between {by}"),
        _ => String::new(),
    };
    format!("{file}{why}")
}

fn describe_ignored(ignored: &IgnoredReport) -> String {
    let IgnoredReport {
        file,
        code,
        fix,
        defines,
    } = ignored;
    let what = if *defines {
        "defines it"
    } else {
        "contains its name"
    };
    let reason = match *code {
        "cdi-file-extension" => "but runtimes read only files that end in .json or .yaml",
        "cdi-file-leftover" => {
            "but its name is that of a backup copy, and runtimes do not read backup copies"
        }
        "cdi-file-temporary" => "but the write of this file is unfinished or was interrupted",
        "cdi-file-in-subdirectory" => "but runtimes do not read subdirectories",
        "cdi-directory-link" => "but runtimes do not follow a CDI directory that is a link",
        other => other,
    };
    format!("{file} {what}, {reason}; {fix}")
}
