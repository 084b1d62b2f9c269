//! Checks that general crates and modules use no code that is specific to IMEX or one driver.

use crate::error::Error;
use crate::modules::ModuleGraph;
use crate::workspace::{Package, Workspace};

/// The crates for several drivers or also for other programs, and the workspace's crates that each may use.
const GENERAL: &[(&str, &[&str])] = &[
    ("dra-common-derive", &[]),
    ("dra-common", &["dra-common-derive"]),
    ("dra-claim", &["dra-common"]),
    ("durable-file", &["dra-common"]),
    (
        "dra-checkpoint",
        &["dra-claim", "dra-common", "durable-file"],
    ),
    ("imex-cdi", &["dra-common", "durable-file", "nri-plugin"]),
    ("nvml-session", &["dra-common"]),
    ("nvidia-cdi-hook", &["dra-common", "nvml-session"]),
    ("nvml-clique", &["dra-common", "nvml-session"]),
    (
        "nvidia-driver-files",
        &["dra-common", "imex-cdi", "nvml-session"],
    ),
    ("gpu-inventory", &["dra-common", "nvml-session"]),
    ("nri-plugin", &["dra-common"]),
    ("dra-kubelet", &["dra-claim", "dra-common"]),
    (
        "node-claims",
        &["dra-checkpoint", "dra-common", "durable-file", "imex-cdi"],
    ),
    (
        "plugin-parts",
        &[
            "daemon-runtime",
            "dra-checkpoint",
            "dra-claim",
            "dra-common",
            "dra-kubelet",
            "durable-file",
            "imex-cdi",
            "node-claims",
        ],
    ),
];

/// Crates that none of these may use, except that some use Kubernetes' client.
const NEVER: [&str; 3] = ["clap", "kube", "k8s-openapi"];
const USE_KUBERNETES: [&str; 2] = ["dra-kubelet", "plugin-parts"];

/// A crate, its IMEX-specific module, and the modules that may use it.
const SPECIAL: (&str, &str, [&str; 3]) = ("imex-cdi", "imex", ["imex", "lint", "lib.rs"]);

/// One line for each use that is not allowed.
pub(crate) fn findings(workspace: &Workspace) -> Result<Vec<String>, Error> {
    let mut found: Vec<String> = workspace.packages.iter().flat_map(forbidden).collect();
    let (name, special, users) = SPECIAL;
    let is_it = |package: &&Package| package.name == name;
    for package in workspace.packages.iter().filter(is_it) {
        for target in package.crates() {
            let graph = ModuleGraph::of_crate(&target.src_path)?;
            let arrows = graph.uses_of(|file| is_below(file, special));
            let arrows = arrows.filter(|(user, _)| !users.iter().any(|it| is_below(user, it)));
            found.extend(arrows.map(|(user, used)| {
                format!(
                    "{name}: {user} is vendor-neutral but uses {used}, which is specific to IMEX"
                )
            }));
        }
    }
    Ok(found)
}

fn forbidden(package: &Package) -> Vec<String> {
    let Some((name, allowed)) = GENERAL.iter().find(|(name, _)| *name == package.name) else {
        return Vec::new();
    };
    let is_forbidden = |other: &str, is_ours: bool| {
        let never = NEVER.contains(&other) && (other == "clap" || !USE_KUBERNETES.contains(name));
        never || (is_ours && !allowed.contains(&other))
    };
    let dependencies = package.dependencies.iter();
    let products = dependencies.filter(|it| it.kind.is_none());
    let wrong = products.filter(|it| is_forbidden(&it.name, it.path.is_some()));
    wrong
        .map(|it| {
            format!(
                "{name} is for several programs and must not use {}",
                it.name
            )
        })
        .collect()
}

/// Whether `file` belongs to the module or one below it.
fn is_below(file: &str, module: &str) -> bool {
    file.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_general_crate_may_not_use_specific_crates_or_kubernetes_client() {
        let package = |name: &str, dependencies: &str| -> Package {
            serde_json::from_str(&format!(
                r#"{{"name": "{name}", "description": null, "manifest_path": "/Cargo.toml",
                    "targets": [], "dependencies": [{dependencies}]}}"#
            ))
            .unwrap()
        };
        let ours = r#"{"name": "imex-cdi", "kind": null, "path": "/cdi"}"#;
        let kube = r#"{"name": "kube", "kind": null, "path": null}"#;
        let tests_only = r#"{"name": "imex-cdi", "kind": "dev", "path": "/cdi"}"#;
        assert_eq!(forbidden(&package("dra-kubelet", ours)).len(), 1);
        assert_eq!(forbidden(&package("dra-claim", kube)).len(), 1);
        assert!(forbidden(&package("dra-kubelet", kube)).is_empty());
        assert!(forbidden(&package("dra-kubelet", tests_only)).is_empty());
        assert!(forbidden(&package("cdi-gen", ours)).is_empty());
    }

    #[test]
    fn a_module_has_its_file_and_those_in_its_folder() {
        for (file, is_it) in [
            ("imex.rs", true),
            ("imex/channel.rs", true),
            ("imex_other.rs", false),
            ("lint/imex.rs", false),
        ] {
            assert_eq!(is_below(file, "imex"), is_it, "{file}");
        }
    }
}
