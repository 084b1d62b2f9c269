//! A [`Report`] for people: the answer, then a line for each thing that has to
//! do with it, then the fix.

use super::report::{Answer, CandidateReport, IgnoredReport, NearMissReport, Report, UnreadDir};

/// More do not help: the name is a common one.
const MOST_NEAR: usize = 5;

pub(crate) fn lines(report: &Report) -> Vec<String> {
    let mut lines = vec![answer(report)];
    let mut line = |what: &str, text: String| lines.push(format!("  {what:<8}  {text}"));
    for candidate in &report.candidates {
        line(candidate.verdict, candidate_words(candidate));
    }
    for file in &report.ignored {
        line("ignored", ignored_words(file));
    }
    if report.ignored_cut {
        line("ignored", "more files than were looked at".to_owned());
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
        instead(report, &mut line);
    }
    if let Some(fix) = report.fix {
        line("fix", fix.to_owned());
    }
    lines
}

fn answer(report: &Report) -> String {
    let Report { name, message, .. } = report;
    let message = message.as_deref().unwrap_or("it is unknown");
    let file = report.file.as_deref().unwrap_or_default();
    match report.answer {
        Answer::Resolves => format!("{name} resolves to {file}"),
        Answer::Unusable => format!("{name} resolves to {file}, but {message}"),
        Answer::Unresolved => format!("{name} does not resolve: {message}"),
        Answer::Unknown => {
            format!("it is unknown whether {name} resolves: {message}, as far as this may be read")
        }
    }
}

/// What there is instead: whoever has what was asked for needs no other.
fn instead(report: &Report, line: &mut impl FnMut(&str, String)) {
    for near in report.near_misses.iter().take(MOST_NEAR) {
        let NearMissReport {
            name, file, fix, ..
        } = near;
        line("near", format!("{name} in {file}; {fix}"));
    }
    if report.near_misses.len() > MOST_NEAR {
        let more = report.near_misses.len() - MOST_NEAR;
        line("near", format!("{more} more (--json has them)"));
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
        // What is known of the name's own files says more.
        0 if !report.candidates.is_empty() || !report.ignored.is_empty() => {}
        0 => line("others", format!("no device of {kind} resolves")),
        1 => line("others", format!("1 other device of {kind} resolves")),
        n => line("others", format!("{n} other devices of {kind} resolve")),
    }
}

fn candidate_words(candidate: &CandidateReport) -> String {
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
            let meant = match *evidence {
                Some("text") => " (the name is in its text)",
                Some("file-name") => " (it is named after the kind)",
                _ => "",
            };
            return match fix {
                Some(fix) => format!("{message}{meant}; {fix}"),
                None => format!("{message}{meant}"),
            };
        }
        ("shadowed", _) => format!(": {by} is in a directory of higher priority"),
        ("conflict", _) => format!(": {by} of the same directory defines it too"),
        ("voided", _) => format!(": in conflict elsewhere, in {by}"),
        _ => String::new(),
    };
    format!("{file}{why}")
}

fn ignored_words(ignored: &IgnoredReport) -> String {
    let IgnoredReport {
        file,
        code,
        fix,
        defines,
    } = ignored;
    let what = if *defines {
        "defines it"
    } else {
        "has its name in it"
    };
    let reason = match *code {
        "cdi-file-extension" => "but runtimes read only names that end in .json or .yaml",
        "cdi-file-leftover" => "but its name is that of a copy, which runtimes do not read",
        "cdi-file-temporary" => "but is a write under way, or one cut off",
        "cdi-file-in-subdirectory" => "but runtimes read no subdirectories",
        "cdi-directory-link" => "but runtimes do not follow a CDI directory that is a link",
        other => other,
    };
    format!("{file} {what}, {reason}; {fix}")
}
