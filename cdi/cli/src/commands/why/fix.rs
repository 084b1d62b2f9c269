//! The fix for the most probable of several causes.

use imex_cdi::{
    DirState, Evidence, Explanation, IgnoredFile, IgnoredReason, QualifiedName, Registry,
    Suggestion, Verdict,
};

const OTHERS_HINT: &str = "request an existing device (see `cdi-gen list`), or check why the \
                           driver has not written a spec for this device";

const ONLY_ALL_HINT: &str = "only the device `all` is defined: request `all`, or configure the \
                             driver to define individual devices";

/// Whether `all` is the only device of the kind.
pub(super) fn has_only_all(registry: &Registry, name: &QualifiedName) -> bool {
    let devices = registry.devices();
    let mut of_kind = devices.filter(|device| device.spec.kind() == name.kind());
    let first = of_kind.next();
    first.is_some_and(|first| first.device.name.as_str() == "all") && of_kind.next().is_none()
}

/// The fix for the most probable cause.
pub(super) fn best_fix(explanation: &Explanation<'_>, only_all: bool) -> Option<String> {
    let candidate = |wanted: fn(&Verdict<'_>) -> bool| {
        let mut all = explanation.candidates.iter();
        let found = all.find(|it| wanted(&it.verdict))?;
        let hint = found.verdict.hint()?;
        Some(match found.verdict {
            Verdict::Refused { .. } => format!("{}: {hint}", found.file.path.display()),
            // There are several files, in the lines above.
            _ => hint.to_owned(),
        })
    };
    let ignored = |wanted: fn(&IgnoredFile) -> bool| {
        let mut all = explanation.ignored.iter();
        let found = all.find(|file| wanted(file))?;
        Some(format!("{}: {}", found.path.display(), found.reason.hint()))
    };
    let suggestion = |wanted: fn(&Suggestion<'_>) -> bool| {
        explanation
            .suggestions
            .iter()
            .find(|it| wanted(it))
            .map(|it| it.hint().to_owned())
    };
    let skipped = || {
        let mut dirs = explanation.unread_dirs.iter();
        dirs.find_map(|dir| match &dir.state {
            DirState::Skipped(error) => Some(format!("{}: {}", dir.path.display(), error.hint())),
            DirState::Listed | DirState::Absent => None,
        })
    };
    // Its driver runs, and has other devices.
    let others = match explanation.others_of_kind {
        0 => None,
        _ if only_all => Some(ONLY_ALL_HINT.to_owned()),
        _ => Some(OTHERS_HINT.to_owned()),
    };
    candidate(|it| !matches!(it, Verdict::Refused { .. }))
        .or_else(|| ignored(|it| it.defines && it.reason != IgnoredReason::Leftover))
        .or_else(|| candidate(|it| is_refused(it, Evidence::Text)))
        .or_else(skipped)
        .or_else(|| candidate(|it| is_refused(it, Evidence::FileName)))
        .or_else(|| ignored(|it| it.defines))
        .or_else(|| suggestion(|it| !matches!(it, Suggestion::OtherKind(_))))
        .or_else(|| candidate(|_| true))
        .or(others)
        .or_else(|| suggestion(|_| true))
        .or_else(|| ignored(|_| true))
}

fn is_refused(verdict: &Verdict<'_>, wanted: Evidence) -> bool {
    matches!(verdict, Verdict::Refused { evidence, .. } if *evidence == wanted)
}
