//! The same configurations, as `containerd config dump` merges them.

use std::env;
use std::path::Path;
use std::process::Command;

use toml::{Table, Value};

use super::trees::{IMPORTS_ABSENT, TREES};
use crate::facts::runtimes::containerd::release::{Release, Rules};

const RUNTIME: &str = "io.containerd.cri.v1.runtime";
const SERVICE: &str = "io.containerd.grpc.v1.cri";
const NEEDED_BY_2: [&str; 3] = [SERVICE, RUNTIME, "io.containerd.cri.v1.images"];

#[test]
#[ignore = "needs CONTAINERD, the paths of one or more containerds with `:` between them"]
fn containerd_itself_makes_the_same_of_each_configuration() {
    let programs = env::var("CONTAINERD").unwrap();
    for program in programs.split(':') {
        let release = release(program);
        let rules = release.rules();
        for tree in TREES {
            let is_overlooked = tree.about == IMPORTS_ABSENT && !matches!(rules, Rules::V1 { .. });
            if is_overlooked {
                continue;
            }
            let dir = tree.write();
            let found = dump(program, dir.path(), rules);
            assert_eq!(found, tree.expected(rules), "{}: {program}", tree.about);
        }
    }
}

fn release(program: &str) -> Release {
    let output = Command::new(program).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let version = text.split_whitespace().nth(2).unwrap();
    let version = version.trim_start_matches('v');
    Release::parse(version.split('+').next().unwrap()).unwrap()
}

fn dump(program: &str, dir: &Path, rules: Rules) -> String {
    let output = Command::new(program)
        .arg("-c")
        .arg(dir.join("main.toml"))
        .args(["config", "dump"])
        .output()
        .unwrap();
    if !output.status.success() {
        return "refused".to_owned();
    }
    let table: Table = String::from_utf8(output.stdout).unwrap().parse().unwrap();
    let disabled = strings(table.get("disabled_plugins").unwrap());
    let plugins = table.get("plugins").unwrap().as_table().unwrap();
    let is_needed = |name: &String| NEEDED_BY_2.contains(&name.as_str());
    let (plugin, is_disabled) = if matches!(rules, Rules::V1 { .. }) {
        // Has the tables of those plugins that it starts.
        (SERVICE, !plugins.contains_key(SERVICE))
    } else {
        (RUNTIME, disabled.iter().any(is_needed))
    };
    let cri = plugins.get(plugin).and_then(Value::as_table);
    let switch = cri.and_then(|cri| cri.get("enable_cdi"));
    let by_default = rules.cdi_by_default();
    let is_on = switch.map_or(by_default, |it| it.as_bool().unwrap());
    let dirs = cri.map(|cri| strings(cri.get("cdi_spec_dirs").unwrap()));
    let dirs = match dirs.as_deref() {
        None => String::new(),
        Some([]) => " none".to_owned(),
        Some(dirs) if dirs == ["/etc/cdi", "/var/run/cdi"] => String::new(),
        Some(dirs) => format!(" {}", dirs.join(" ")),
    };
    let switch = if is_on { "on" } else { "off" };
    let cri = if is_disabled { " no-cri" } else { "" };
    format!("{switch}{dirs}{cri}")
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().unwrap().iter();
    items.map(|it| it.as_str().unwrap().to_owned()).collect()
}
