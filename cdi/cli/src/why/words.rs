//! A [`Report`] for people: the answer, then a line for each thing that has to
//! do with it, then the fix.

use super::report::{CandidateReport, IgnoredReport, NearMissReport, Report, UnreadDir};

/// More do not help: the name is a common one.
const MOST_NEAR: usize = 5;

pub(crate) fn lines(report: &Report) -> Vec<String> {
    let Report {
        name,
        resolves,
        file,
        message,
        fix,
        candidates,
        near_misses,
        ignored,
        ignored_cut,
        unread_dirs,
        others_of_kind,
        ..
    } = report;
    let answer = match (file, message) {
        (Some(file), _) => format!("{name} resolves to {file}"),
        (None, message) => {
            let message = message.as_deref().unwrap_or("it is unknown");
            format!("{name} does not resolve: {message}")
        }
    };
    let mut lines = vec![answer];
    let mut line = |what: &str, text: String| lines.push(format!("  {what:<8}  {text}"));
    for candidate in candidates {
        line(candidate.verdict, candidate_words(candidate));
    }
    for file in ignored {
        line("ignored", ignored_words(file));
    }
    if *ignored_cut {
        line("ignored", "more files than were looked at".to_owned());
    }
    if *resolves {
        // Whoever has what was asked for needs no other.
        return lines;
    }
    for near in near_misses.iter().take(MOST_NEAR) {
        let NearMissReport {
            name, file, fix, ..
        } = near;
        line("near", format!("{name} in {file}; {fix}"));
    }
    if near_misses.len() > MOST_NEAR {
        let more = near_misses.len() - MOST_NEAR;
        line("near", format!("{more} more (--json has them)"));
    }
    for UnreadDir { path, message, fix } in unread_dirs {
        let fix = fix.map_or_else(String::new, |fix| format!("; {fix}"));
        let place = if message.contains(path.as_str()) {
            String::new()
        } else {
            format!("{path} ")
        };
        line("unread", format!("{place}{message}{fix}"));
    }
    let kind = name.split_once('=').map_or(name.as_str(), |(kind, _)| kind);
    match others_of_kind {
        // What is known of the name's own files says more.
        0 if !candidates.is_empty() || !ignored.is_empty() => {}
        0 => line("others", format!("no device of {kind} resolves")),
        1 => line("others", format!("1 other device of {kind} resolves")),
        n => line("others", format!("{n} other devices of {kind} resolve")),
    }
    line("fix", fix.unwrap_or_default().to_owned());
    lines
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
        "cdi-file-temporary" => "but is a write under way, or one cut off",
        "cdi-file-in-subdirectory" => "but runtimes read no subdirectories",
        "cdi-directory-link" => "but runtimes do not follow a CDI directory that is a link",
        other => other,
    };
    format!("{file} {what}, {reason}; {fix}")
}
