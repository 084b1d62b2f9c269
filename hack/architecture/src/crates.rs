//! The graph and the table of the crates' dependencies.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::workspace::{Package, Workspace};

/// The directory of tools and tests: they may use every crate, and no crate uses them.
const TOOLS: &str = "hack";

/// A Mermaid graph and a table of the product crates, grouped by top-level folder.
/// The graph leaves out transitive dependencies; the table has them.
pub(crate) fn picture(workspace: &Workspace) -> String {
    let mut folders: BTreeMap<String, Vec<&Package>> = BTreeMap::new();
    for package in &workspace.packages {
        let folder = folder_of(workspace, package);
        if folder != TOOLS {
            folders.entry(folder).or_default().push(package);
        }
    }
    let used: Used<'_> = folders
        .values()
        .flatten()
        .map(|package| (package.name.as_str(), used_by(package)))
        .collect();
    format!(
        "{}\n{}",
        graph(&folders, &used),
        table(workspace, &folders, &used)
    )
}

/// Each crate's dependencies.
type Used<'a> = BTreeMap<&'a str, Vec<&'a str>>;

fn graph(folders: &BTreeMap<String, Vec<&Package>>, used: &Used<'_>) -> String {
    let mut text = String::from("```mermaid\ngraph TD\n");
    for (folder, packages) in folders {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    subgraph \"{folder}/\"");
        for package in packages {
            let _ = writeln!(text, "        {}", package.name);
        }
        text.push_str("    end\n");
    }
    for (name, below) in used {
        for other in below {
            let implied = below
                .iter()
                .any(|via| via != other && reaches(used, via, other));
            if !implied {
                let _ = writeln!(text, "    {name} --> {other}");
            }
        }
    }
    text.push_str("```\n");
    text
}

/// Whether `from` depends on `to`, directly or transitively. Terminates, because
/// cargo rejects circles.
fn reaches(used: &Used<'_>, from: &str, to: &str) -> bool {
    let mut below = used.get(from).into_iter().flatten();
    below.any(|next| *next == to || reaches(used, next, to))
}

fn table(
    workspace: &Workspace,
    folders: &BTreeMap<String, Vec<&Package>>,
    used: &Used<'_>,
) -> String {
    let mut text =
        String::from("| crate | folder | what it is | built from |\n|---|---|---|---|\n");
    for package in folders.values().flatten() {
        let directory = package.directory(&workspace.workspace_root).display();
        let below = used.get(package.name.as_str());
        let _ = writeln!(
            text,
            "| `{}` | [{directory}]({directory}) | {} | {} |",
            package.name,
            package.description.as_deref().unwrap_or_default(),
            below.map(|it| it.join(", ")).unwrap_or_default(),
        );
    }
    text
}

fn folder_of(workspace: &Workspace, package: &Package) -> String {
    let directory = package.directory(&workspace.workspace_root);
    let top = directory.iter().next().unwrap_or_default();
    top.to_string_lossy().into_owned()
}

/// Names of the package's dependencies in the workspace.
fn used_by(package: &Package) -> Vec<&str> {
    let dependencies = package.dependencies.iter();
    let ours = dependencies.filter(|it| it.path.is_some() && it.kind.is_none());
    let mut names: Vec<&str> = ours.map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_points_at_its_dependencies_and_tools_are_left_out() {
        let workspace = serde_json::from_str(
            r#"{
                "workspace_root": "/ws",
                "packages": [
                    {"name": "low", "description": "the lowest", "manifest_path": "/ws/low/Cargo.toml",
                     "targets": [], "dependencies": []},
                    {"name": "middle", "description": null, "manifest_path": "/ws/top/middle/Cargo.toml",
                     "targets": [], "dependencies": [{"name": "low", "kind": null, "path": "/ws/low"}]},
                    {"name": "high", "description": null, "manifest_path": "/ws/top/high/Cargo.toml",
                     "targets": [], "dependencies": [
                        {"name": "middle", "kind": null, "path": "/ws/top/middle"},
                        {"name": "low", "kind": null, "path": "/ws/low"},
                        {"name": "mock", "kind": "dev", "path": "/ws/hack/mock"},
                        {"name": "serde", "kind": null, "path": null}
                    ]},
                    {"name": "mock", "description": null, "manifest_path": "/ws/hack/mock/Cargo.toml",
                     "targets": [], "dependencies": []}
                ]
            }"#,
        )
        .unwrap();
        let picture = picture(&workspace);
        let lines = picture.lines().map(str::trim);
        let (boxes, rows): (Vec<&str>, Vec<&str>) = lines.partition(|line| !line.starts_with('|'));
        let graph = [
            "```mermaid",
            "graph TD",
            "subgraph \"low/\"",
            "low",
            "end",
            "subgraph \"top/\"",
            "middle",
            "high",
            "end",
            "high --> middle",
            "middle --> low",
            "```",
            "",
        ];
        assert_eq!(boxes, graph);
        let below = [
            "| `low` | [low](low) | the lowest |  |",
            "| `middle` | [top/middle](top/middle) |  | low |",
            "| `high` | [top/high](top/high) |  | low, middle |",
        ];
        assert_eq!(rows[2..], below);
    }
}
