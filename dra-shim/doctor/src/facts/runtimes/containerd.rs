//! containerd: that of a distribution, that of k3s and RKE2, and what runs.

use std::path::Path;

use toml::{Table, Value};

use super::model::{CdiSupport, Runtime, RuntimeKind, major_minor};
use super::running::{self, Running};
use super::toml_file::{self, strings};
use crate::files::HostFiles;
use crate::packages;

const PROGRAMS: [&str; 2] = ["/usr/bin/containerd", "/usr/local/bin/containerd"];
/// Docker's package, and the distribution's.
const PACKAGES: [&str; 2] = ["containerd.io", "containerd"];

const DEFAULT_CONFIG: &str = "/etc/containerd/config.toml";
/// k3s and RKE2 bring containerd with them, and write its configuration.
const BUNDLED_CONFIGS: [&str; 2] = [
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
];

/// The plugin that has the setting: containerd 2, then 1.
const PLUGINS: [&str; 3] = [
    "io.containerd.cri.v1.runtime",
    "io.containerd.grpc.v1.cri",
    "cri",
];

/// containerd 2 writes, and only it reads, this version of the file.
const VERSION_OF_2: i64 = 3;

/// What a configuration sets about CDI.
#[derive(Debug, Default)]
struct Settings {
    file_version: Option<i64>,
    enable_cdi: Option<bool>,
    spec_dirs: Option<Vec<String>>,
    /// The files that set these two.
    enable_cdi_file: Option<String>,
    spec_dirs_file: Option<String>,
    /// Whether it cannot serve kubelet.
    cri_disabled: bool,
}

/// One for each configuration: the default one, those of k3s and RKE2, and those
/// of other processes.
pub(super) fn find(files: &HostFiles) -> Vec<Runtime> {
    let mut running = running::find(files, "containerd");
    // Docker has a containerd of its own, which does not serve kubelet.
    running.retain(|it| settings(files, it.config()).map_or(true, |it| !it.cri_disabled));
    let mut found: Vec<(&str, Runtime)> = Vec::new();
    let installed = files.first_existing(&PROGRAMS);
    if installed.is_some() || files.exists(DEFAULT_CONFIG) {
        let by_process = running.iter().find(|it| it.config() == DEFAULT_CONFIG);
        let program = by_process
            .and_then(|it| it.program.as_deref())
            .or(installed);
        let version = packages::version(files, &PACKAGES, program);
        found.push((
            DEFAULT_CONFIG,
            runtime(files, DEFAULT_CONFIG, version, &running),
        ));
    }
    for config in BUNDLED_CONFIGS {
        if files.exists(config) {
            found.push((config, runtime(files, config, None, &running)));
        }
    }
    for process in &running {
        let config = process.config();
        if found.iter().all(|(listed, _)| *listed != config) {
            let version = packages::version(files, &[], process.program.as_deref());
            found.push((config, runtime(files, config, version, &running)));
        }
    }
    found.into_iter().map(|(_, runtime)| runtime).collect()
}

fn runtime(
    files: &HostFiles,
    config: &str,
    version: Option<String>,
    running: &[Running],
) -> Runtime {
    let exists = files.exists(config);
    let (settings, config_error) = match settings(files, config) {
        Ok(settings) => (settings, None),
        Err(error) => (Settings::default(), Some(error)),
    };
    let numbers = version.as_deref().and_then(major_minor);
    let cdi = cdi(&settings, numbers.map(|(major, _)| major));
    let decided_by = match cdi {
        CdiSupport::Off => settings.enable_cdi_file,
        CdiSupport::On | CdiSupport::Unknown => settings.spec_dirs_file,
    };
    // Beside one that runs, one that is only installed runs no pods.
    let is_used = running.is_empty() || running.iter().any(|it| it.config() == config);
    Runtime {
        kind: RuntimeKind::Containerd,
        version,
        cdi,
        spec_dirs: settings.spec_dirs,
        config: decided_by.or_else(|| exists.then(|| config.to_owned())),
        config_error,
        runs_pods: is_used && !settings.cri_disabled,
    }
}

/// Off by default in containerd 1.7, on in 2.
fn cdi(settings: &Settings, major: Option<u32>) -> CdiSupport {
    match (settings.enable_cdi, major, settings.file_version) {
        (Some(true), _, _) | (None, Some(2..), _) | (None, None, Some(VERSION_OF_2..)) => {
            CdiSupport::On
        }
        (Some(false), _, _) | (None, Some(..2), _) => CdiSupport::Off,
        (None, None, _) => CdiSupport::Unknown,
    }
}

/// The settings of the file and of its imports, which override it.
fn settings(files: &HostFiles, config: &str) -> Result<Settings, String> {
    let mut settings = Settings::default();
    let Some(main) = toml_file::read(files, config)? else {
        return Ok(settings);
    };
    settings.merge(config, &main);
    for import in imports(files, config, &main) {
        if let Some(more) = toml_file::read(files, &import)? {
            settings.merge(&import, &more);
        }
    }
    Ok(settings)
}

/// The files of `imports`, where `*` may stand in the last name.
fn imports(files: &HostFiles, config: &str, main: &Table) -> Vec<String> {
    let patterns = main.get("imports").and_then(Value::as_array);
    let patterns = patterns.into_iter().flatten().filter_map(Value::as_str);
    patterns
        .flat_map(|pattern| {
            let base = Path::new(config).parent().unwrap_or_else(|| Path::new("/"));
            let path = base.join(pattern);
            let dir = path
                .parent()
                .map_or_else(String::new, |dir| dir.display().to_string());
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let names = files.list(&dir).into_iter();
            let matching: Vec<String> = names
                .filter(|it| matches(&name, it))
                .map(|it| format!("{dir}/{it}"))
                .collect();
            matching
        })
        .collect()
}

/// A name against a pattern with at most one `*`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name
            .strip_prefix(before)
            .is_some_and(|rest| rest.ends_with(after)),
    }
}

// === impl Running ===

impl Running {
    /// The file that it reads: without an option, the default one.
    fn config(&self) -> &str {
        self.config.as_deref().unwrap_or(DEFAULT_CONFIG)
    }
}

// === impl Settings ===

impl Settings {
    /// What a later file sets replaces what an earlier one set.
    fn merge(&mut self, file: &str, table: &Table) {
        let version = table.get("version").and_then(Value::as_integer);
        self.file_version = version.or(self.file_version);
        let disabled = table.get("disabled_plugins");
        let disabled = disabled.and_then(strings);
        if let Some(disabled) = disabled {
            self.cri_disabled = disabled.iter().any(|it| PLUGINS.contains(&it.as_str()));
        }
        let plugins = table.get("plugins").and_then(Value::as_table);
        let Some(plugins) = plugins else { return };
        let known = PLUGINS
            .iter()
            .filter_map(|name| plugins.get(*name)?.as_table());
        for cri in known {
            if let Some(enabled) = cri.get("enable_cdi").and_then(Value::as_bool) {
                self.enable_cdi = Some(enabled);
                self.enable_cdi_file = Some(file.to_owned());
            }
            if let Some(dirs) = cri.get("cdi_spec_dirs").and_then(strings) {
                self.spec_dirs = Some(dirs);
                self.spec_dirs_file = Some(file.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Settings {
        let mut settings = Settings::default();
        settings.merge(DEFAULT_CONFIG, &text.parse().unwrap());
        settings
    }

    #[test]
    fn what_a_configuration_leaves_out_its_version_decides() {
        let unset = parse("version = 2\n");
        assert_eq!(cdi(&unset, Some(1)), CdiSupport::Off);
        assert_eq!(cdi(&unset, Some(2)), CdiSupport::On);
        assert_eq!(cdi(&unset, None), CdiSupport::Unknown);
        assert_eq!(cdi(&parse("version = 3\n"), None), CdiSupport::On);
        let off =
            parse("version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n");
        assert_eq!(cdi(&off, Some(2)), CdiSupport::Off);
        let on = parse("[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_cdi = true\n");
        assert_eq!(cdi(&on, Some(1)), CdiSupport::On);
    }

    #[test]
    fn a_pattern_has_one_star() {
        assert!(matches("*.toml", "nvidia.toml"));
        assert!(matches("a.toml", "a.toml"));
        assert!(!matches("*.toml", "nvidia.json"));
    }
}
