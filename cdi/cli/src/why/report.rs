//! What `why` says, as data.

use std::path::Path;

use compute_domain_node::with_sources;
use imex_cdi::{
    Candidate, DirState, Evidence, Explanation, IgnoredFile, NearMiss, QualifiedName, Registry,
    SpecDir, SpecFile, Unresolved, Verdict,
};
use serde::Serialize;

const SCHEMA: &str = "cdi-gen/why/v1";

const OTHERS_HINT: &str = "ask for a device that there is (`cdi-gen list` has them), or see why \
                           its driver has not written this one";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    schema: &'static str,
    pub(super) name: String,
    pub(crate) resolves: bool,
    /// The file that wins.
    pub(super) file: Option<String>,
    /// Why it does not resolve.
    pub(super) code: Option<&'static str>,
    pub(super) message: Option<String>,
    pub(super) fix: Option<&'static str>,
    pub(super) candidates: Vec<CandidateReport>,
    pub(super) near_misses: Vec<NearMissReport>,
    pub(super) ignored: Vec<IgnoredReport>,
    /// Whether there are more ignored files than were looked at.
    pub(super) ignored_cut: bool,
    pub(super) unread_dirs: Vec<UnreadDir>,
    pub(super) others_of_kind: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CandidateReport {
    pub(super) file: String,
    pub(super) verdict: &'static str,
    code: &'static str,
    /// The files that it lost to, or is at odds with.
    pub(super) by: Vec<String>,
    pub(super) message: Option<String>,
    pub(super) fix: Option<&'static str>,
    pub(super) evidence: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NearMissReport {
    pub(super) name: String,
    pub(super) file: String,
    code: &'static str,
    pub(super) fix: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IgnoredReport {
    pub(super) file: String,
    pub(super) code: &'static str,
    pub(super) fix: &'static str,
    /// Whether it is a valid spec that defines the device.
    pub(super) defines: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UnreadDir {
    pub(super) path: String,
    pub(super) message: String,
    pub(super) fix: Option<&'static str>,
}

// === impl Report ===

impl Report {
    pub(crate) fn of(registry: &Registry, name: &QualifiedName) -> Self {
        let explanation = registry.explain(name);
        let unresolved = explanation.answer.as_ref().err();
        let winner = explanation.answer.as_ref().ok();
        Self {
            schema: SCHEMA,
            name: name.to_string(),
            resolves: unresolved.is_none(),
            file: winner.map(|winner| shown(&winner.file.path)),
            code: unresolved.map(Unresolved::code),
            message: unresolved.map(ToString::to_string),
            fix: unresolved.map(|why| first_fix(&explanation).unwrap_or_else(|| why.hint())),
            candidates: explanation
                .candidates
                .iter()
                .map(CandidateReport::of)
                .collect(),
            near_misses: explanation.near.iter().map(NearMissReport::of).collect(),
            ignored: explanation.ignored.iter().map(IgnoredReport::of).collect(),
            ignored_cut: explanation.ignored_cut,
            unread_dirs: explanation
                .unread_dirs
                .iter()
                .map(|dir| UnreadDir::of(dir))
                .collect(),
            others_of_kind: explanation.others_of_kind,
        }
    }
}

/// The fix of what is most probably the cause.
fn first_fix(explanation: &Explanation<'_>) -> Option<&'static str> {
    let candidates = explanation.candidates.iter();
    let mut candidates = candidates.filter_map(|candidate| candidate.verdict.hint());
    let mut defining = explanation.ignored.iter().filter(|file| file.defines);
    let is_misspelt = |near: &&NearMiss<'_>| matches!(near, NearMiss::OtherCase(_));
    // Its driver runs, and has other devices.
    let others = (explanation.others_of_kind > 0).then_some(OTHERS_HINT);
    candidates
        .next()
        .or_else(|| defining.next().map(|file| file.reason.hint()))
        .or_else(|| {
            explanation
                .near
                .iter()
                .find(is_misspelt)
                .map(NearMiss::hint)
        })
        .or(others)
        .or_else(|| explanation.near.first().map(NearMiss::hint))
        .or_else(|| explanation.ignored.first().map(|file| file.reason.hint()))
}

// === impl CandidateReport ===

impl CandidateReport {
    fn of(candidate: &Candidate<'_>) -> Self {
        let paths = |files: &[&SpecFile]| files.iter().map(|file| shown(&file.path)).collect();
        let (verdict, by, message, evidence) = match &candidate.verdict {
            Verdict::Wins(_) => ("wins", vec![], None, None),
            Verdict::Shadowed { by } => ("shadowed", vec![shown(&by.path)], None, None),
            Verdict::Conflicts { with } => ("conflict", paths(with), None, None),
            Verdict::Voided { by } => ("voided", paths(by), None, None),
            Verdict::Refused { error, evidence } => {
                let evidence = match evidence {
                    Evidence::Text => "text",
                    Evidence::FileName => "file-name",
                    _ => "unread",
                };
                ("refused", vec![], Some(with_sources(error)), Some(evidence))
            }
            // A verdict that the library has learnt since: its code says which.
            _ => ("other", vec![], None, None),
        };
        Self {
            file: shown(&candidate.file.path),
            verdict,
            code: candidate.verdict.code(),
            by,
            message,
            fix: candidate.verdict.hint(),
            evidence,
        }
    }
}

// === impl NearMissReport ===

impl NearMissReport {
    fn of(near: &NearMiss<'_>) -> Self {
        let device = near.device();
        Self {
            name: device.name().to_string(),
            file: shown(&device.file.path),
            code: near.code(),
            fix: near.hint(),
        }
    }
}

// === impl IgnoredReport ===

impl IgnoredReport {
    fn of(ignored: &IgnoredFile) -> Self {
        Self {
            file: shown(&ignored.path),
            code: ignored.reason.code(),
            fix: ignored.reason.hint(),
            defines: ignored.defines,
        }
    }
}

// === impl UnreadDir ===

impl UnreadDir {
    fn of(dir: &SpecDir) -> Self {
        let (message, fix) = match &dir.state {
            DirState::Skipped(error) => (with_sources(error), Some(error.hint())),
            DirState::Absent | DirState::Listed => ("does not exist".to_owned(), None),
        };
        Self {
            path: shown(&dir.path),
            message,
            fix,
        }
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
