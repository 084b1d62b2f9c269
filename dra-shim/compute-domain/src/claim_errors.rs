//! Errors of claims for pod events and logs.

use compute_domain_node::PrepareError;
use dra_kubelet::ClaimError;

/// The error that the claim's user reads: what failed, why, and what to do.
// req: NODE-39
pub(crate) fn prepare_failed(error: &PrepareError) -> ClaimError {
    plugin_parts::prepare_failed(error, error.class(), error.code(), error.hint())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The texts that follow `before`, up to the next quote.
    fn quoted<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = String> + 'a {
        let rest = text.split(before).skip(1);
        rest.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
    }

    /// The codes of the file's errors.
    fn returned(file: &Path) -> BTreeSet<String> {
        let text = fs::read_to_string(file).unwrap();
        quoted(&text, "code = \"").collect()
    }

    /// The codes that the code below `dir` sets.
    fn set_below(dir: &Path) -> BTreeSet<String> {
        let mut codes = BTreeSet::new();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("tests") {
                continue;
            }
            if path.is_dir() {
                codes.extend(set_below(&path));
            } else {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                for before in ["with_code(\"", "unanswered(\"", "code: \""] {
                    codes.extend(quoted(code, before));
                }
            }
        }
        codes
    }

    // req: NODE-39
    #[test]
    fn the_page_explains_every_code_of_failed_claims_and_no_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut codes = BTreeSet::new();
        for dir in ["compute-domain/src", "plugin/src", "kubelet/src"] {
            codes.extend(set_below(&root.join(dir)));
        }
        for file in [
            "compute-domain/node/src/error.rs",
            "compute-domain/node/src/imex_daemon.rs",
            "node/src/error.rs",
            "kubelet/src/claim.rs",
            "kubelet/src/claim_source.rs",
            "claim/src/parameters.rs",
            "clique/src/host_imex.rs",
            "gpu/api/src/error.rs",
            "gpu/node/src/error.rs",
            "../cdi/src/claim.rs",
            "../cdi/src/claim_specs.rs",
            "../controller/api/src/opaque/error.rs",
        ] {
            let returned = returned(&root.join(file));
            assert!(!returned.is_empty(), "{file} returns no code");
            codes.extend(returned);
        }
        let listed = documented_codes();
        let missing: Vec<_> = codes.difference(&listed).collect();
        assert!(missing.is_empty(), "the page lacks them: {missing:?}");
        let stale: Vec<_> = listed.difference(&codes).collect();
        assert!(stale.is_empty(), "no error has them: {stale:?}");
    }

    /// The codes in the first column of the table.
    fn documented_codes() -> BTreeSet<String> {
        let page = include_str!("../../../docs/reference/claim-errors.md");
        let cells = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let cells = cells.filter_map(|row| row.split_once(" |"));
        let codes = cells.flat_map(|(cell, _)| cell.split([',', '`', ' ']));
        let codes = codes.filter(|code| !code.is_empty());
        codes.map(str::to_owned).collect()
    }

    // req: NODE-3
    #[test]
    fn a_refused_mode_names_the_mode_and_what_to_set() {
        let error = prepare_failed(&PrepareError::AllocationMode {
            mode: "All".to_owned(),
        });
        assert_eq!(error.class(), dra_kubelet::ErrorClass::Permanent);
        assert_eq!(error.code(), "allocation-mode");
        assert_eq!(
            error.message(),
            "allocationMode \"All\" is not supported; only \"Single\" is supported; \
             set spec.channel.allocationMode: Single in a new ComputeDomain"
        );
    }
}
