//! The data of `why`: why a name resolves or does not.

use std::borrow::Cow;
use std::collections::BTreeSet;

use dra_common::error_chain;
use host_doctor::{Host, HostPaths, MissingPath, NodeReport, OneLetterKind, and_more, rewrite_fix};
use imex_cdi::{
    Candidate, DirState, Evidence, Plan, QualifiedName, Registry, ResolveError, Resolved, SpecFile,
    Verdict,
};
use serde::Serialize;
use serde_json::json;

use super::fix::{best_fix, has_only_all};
use crate::host_specs::{UNKNOWN_HINT, denied};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WhyReport {
    pub(super) schema: &'static str,
    pub(super) name: String,
    pub(super) answer: Answer,
    pub(super) resolves: bool,
    /// The file that wins.
    pub(super) file: Option<String>,
    /// The nodes of the device and of its file, compared with the host's.
    pub(super) nodes: Vec<NodeReport>,
    /// Why it does not resolve, or cannot be used.
    pub(super) code: Option<&'static str>,
    pub(super) message: Option<String>,
    pub(super) fix: Option<Cow<'static, str>>,
    pub(super) candidates: Vec<CandidateReport>,
    pub(super) near_misses: Vec<NearMissReport>,
    pub(super) ignored: Vec<IgnoredReport>,
    /// Whether there are more ignored files than were examined.
    pub(super) ignored_cut: bool,
    pub(super) unread_dirs: Vec<UnreadDir>,
    pub(super) others_of_kind: usize,
}

/// What a container that requests the device gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// The device.
    Resolves,
    /// Nothing: the device resolves, but the host lacks what its spec needs.
    Unusable,
    /// Nothing: there is no such device.
    Unresolved,
    /// Unknown: an unreadable file may define the device.
    Unknown,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CandidateReport {
    pub(super) file: String,
    pub(super) verdict: &'static str,
    pub(super) code: &'static str,
    /// The files that shadow it, or conflict with it.
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
    pub(super) code: &'static str,
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

// === impl WhyReport ===

impl WhyReport {
    pub(super) fn new(registry: &Registry, name: &QualifiedName) -> Self {
        let explanation = registry.explain(name);
        let unresolved = explanation.resolution.as_ref().err();
        let winner = explanation.resolution.as_ref().ok();
        let answer = match unresolved {
            None => Answer::Resolves,
            Some(ResolveError::Unknown { .. }) if denied(registry).next().is_some() => {
                Answer::Unknown
            }
            Some(_) => Answer::Unresolved,
        };
        let fix = |why: &ResolveError| match answer {
            Answer::Unknown => UNKNOWN_HINT.to_owned(),
            _ => best_fix(&explanation, has_only_all(registry, name))
                .unwrap_or_else(|| why.hint().to_owned()),
        };
        let candidates = explanation.candidates.iter();
        let near = explanation.suggestions.iter();
        let ignored = explanation.ignored.iter();
        let dirs = explanation.unread_dirs.iter();
        Self {
            schema: "cdi-gen/why/v1",
            name: name.to_string(),
            answer,
            resolves: unresolved.is_none(),
            file: winner.map(|winner| winner.file.path.display().to_string()),
            nodes: vec![],
            code: unresolved.map(ResolveError::code),
            message: unresolved.map(ToString::to_string),
            fix: unresolved.map(|why| fix(why).into()),
            candidates: candidates.map(CandidateReport::new).collect(),
            near_misses: near
                .map(|near| NearMissReport {
                    name: near.device().name().to_string(),
                    file: near.device().file.path.display().to_string(),
                    code: near.code(),
                    fix: near.hint(),
                })
                .collect(),
            ignored: ignored
                .map(|ignored| IgnoredReport {
                    file: ignored.path.display().to_string(),
                    code: ignored.reason.code(),
                    fix: ignored.reason.hint(),
                    defines: ignored.defines,
                })
                .collect(),
            ignored_cut: explanation.ignored_truncated,
            unread_dirs: dirs
                .map(|dir| {
                    let (message, fix) = match &dir.state {
                        DirState::Skipped(error) => (error_chain(error), Some(error.hint())),
                        DirState::Absent | DirState::Listed => ("does not exist".to_owned(), None),
                    };
                    UnreadDir {
                        path: dir.path.display().to_string(),
                        message,
                        fix,
                    }
                })
                .collect(),
            others_of_kind: explanation.others_of_kind,
        }
    }

    /// If the device resolves: compares its nodes with the host's, and checks
    /// that a container could be started with it.
    pub(super) fn check_host(&mut self, host: &Host, registry: &Registry, name: &QualifiedName) {
        let Ok(Resolved {
            file, spec, device, ..
        }) = registry.resolve(name)
        else {
            return;
        };
        let own = NodeReport::from_edits(spec, &device.container_edits, host);
        let shared = NodeReport::from_edits(spec, spec.container_edits(), host);
        self.nodes = own.chain(shared).collect();
        let worst = self.nodes.iter().max_by_key(|node| node.state);
        let mut paths = HostPaths::new(host);
        let edits = [&device.container_edits, spec.container_edits()];
        let missing = edits.into_iter().flat_map(|edits| paths.missing(edits));
        let mut missing: Vec<MissingPath> = missing.collect();
        // The edits of device and spec often have the same hook.
        let mut seen = BTreeSet::new();
        missing.retain(|it| seen.insert(it.path.clone()));
        // For a container with an empty config.
        let plan = Plan::new(registry, std::slice::from_ref(name), &json!({}), host);
        let one_letter = OneLetterKind::of(spec.kind());
        let (code, message, fix) = match (plan, worst, missing.split_first()) {
            _ if one_letter.is_some() => (
                OneLetterKind::CODE,
                one_letter.map(|kind| format!("its {}", kind.message("a runtime"))),
                Some(OneLetterKind::FIX.into()),
            ),
            (Err(error), ..) => (
                error.code(),
                Some(error_chain(&error)),
                Some(error.hint().into()),
            ),
            (Ok(_), Some(node), _) if node.state.is_bad() => (
                node.state.code(),
                node.message.clone(),
                node.fix.map(Cow::from),
            ),
            (Ok(_), _, Some((first, others))) => {
                let message = format!("{}{}", first.message(), and_more(others.len()));
                let file = host.host_name(&file.path);
                let fix = rewrite_fix(spec, &file, &missing).into();
                ("host-path-missing", Some(message), Some(fix))
            }
            (Ok(_), _, None) => return,
        };
        self.answer = Answer::Unusable;
        self.code = Some(code);
        self.message = message;
        self.fix = fix;
    }
}

// === impl CandidateReport ===

impl CandidateReport {
    fn new(candidate: &Candidate<'_>) -> Self {
        let paths = |files: &[&SpecFile]| {
            files
                .iter()
                .map(|file| file.path.display().to_string())
                .collect()
        };
        let (verdict, by, message, evidence) = match &candidate.verdict {
            Verdict::Wins(_) => ("wins", vec![], None, None),
            Verdict::Shadowed { by } => {
                ("shadowed", vec![by.path.display().to_string()], None, None)
            }
            Verdict::Conflicts { with } => ("conflict", paths(with), None, None),
            Verdict::Voided { by } => ("voided", paths(by), None, None),
            Verdict::Refused { error, evidence } => {
                let evidence = match evidence {
                    Evidence::Text => "text",
                    Evidence::FileName => "file-name",
                    _ => "unread",
                };
                ("refused", vec![], Some(error_chain(error)), Some(evidence))
            }
            // A verdict that is newer than this program; its code names it.
            _ => ("other", vec![], None, None),
        };
        Self {
            file: candidate.file.path.display().to_string(),
            verdict,
            code: candidate.verdict.code(),
            by,
            message,
            fix: candidate.verdict.hint(),
            evidence,
        }
    }
}
