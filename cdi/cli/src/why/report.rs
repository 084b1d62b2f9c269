//! What `why` says, as data.

use std::path::Path;

use compute_domain_node::with_sources;
use imex_cdi::{
    Candidate, DirState, Evidence, IgnoredFile, NearMiss, Plan, QualifiedName, Registry, Resolved,
    SpecDir, SpecFile, Unresolved, Verdict,
};
use serde::Serialize;
use serde_json::json;

use super::fix::{first_fix, is_cut_short, only_all};
use crate::host::Host;
use crate::host_node::NodeReport;

const SCHEMA: &str = "cdi-gen/why/v1";

const UNKNOWN_HINT: &str = "run this as root, as runtimes do: what it may not read may define the \
                            device";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    schema: &'static str,
    pub(super) name: String,
    pub(super) answer: Answer,
    pub(super) resolves: bool,
    /// The file that wins.
    pub(super) file: Option<String>,
    /// The nodes of the device and of its file, against the host's.
    pub(super) nodes: Vec<NodeReport>,
    /// Why it does not resolve, or no container gets what it says.
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

/// What becomes of a container that asks for the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// It gets the device.
    Resolves,
    /// The device resolves, but the host has not what its spec says.
    Unusable,
    /// There is no such device.
    Unresolved,
    /// What this process may not read may define it.
    Unknown,
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
        let answer = match unresolved {
            None => Answer::Resolves,
            Some(Unresolved::Unknown { .. }) if is_cut_short(&explanation) => Answer::Unknown,
            Some(_) => Answer::Unresolved,
        };
        let fix = |why: &Unresolved| match answer {
            Answer::Unknown => UNKNOWN_HINT,
            _ => first_fix(&explanation, only_all(registry, name)).unwrap_or_else(|| why.hint()),
        };
        Self {
            schema: SCHEMA,
            name: name.to_string(),
            answer,
            resolves: unresolved.is_none(),
            file: winner.map(|winner| shown(&winner.file.path)),
            nodes: vec![],
            code: unresolved.map(Unresolved::code),
            message: unresolved.map(ToString::to_string),
            fix: unresolved.map(fix),
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

impl Report {
    /// Whether files that may not be read may define the device.
    pub(crate) fn is_unknown(&self) -> bool {
        self.answer == Answer::Unknown
    }

    /// Adds what the host has of the device, if it resolves, and whether a
    /// container could be started with it.
    pub(super) fn hold_against(&mut self, host: &Host, registry: &Registry, name: &QualifiedName) {
        let Ok(Resolved { spec, device, .. }) = registry.resolve(name) else {
            return;
        };
        let own = NodeReport::of_edits(spec, &device.container_edits, host);
        let shared = NodeReport::of_edits(spec, spec.container_edits(), host);
        self.nodes = own.chain(shared).collect();
        let worst = self.nodes.iter().max_by_key(|node| node.state);
        // As for a container that has nothing yet.
        let plan = Plan::new(registry, std::slice::from_ref(name), &json!({}), host);
        let (code, message, fix) = match (plan, worst) {
            (Err(error), _) => (error.code(), Some(with_sources(&error)), Some(error.hint())),
            (Ok(_), Some(node)) if node.state.is_bad() => {
                (node.state.code(), node.message.clone(), node.fix)
            }
            (Ok(_), _) => return,
        };
        self.answer = Answer::Unusable;
        self.code = Some(code);
        self.message = message;
        self.fix = fix;
    }
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
