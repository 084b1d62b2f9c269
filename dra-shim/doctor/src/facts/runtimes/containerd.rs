//! containerd: that of a distribution, that of k3s and RKE2, and what runs.

mod disabled;
mod files;
mod glob;
mod handler;
mod layer;
mod rancher;
mod release;
mod rules;
#[cfg(test)]
mod tests;

use toml::de::{DeTable, DeValue};

use self::disabled::Disabled;
use self::files::{ConfigError, ConfigFile};
use self::layer::Place;
use self::rancher::Distribution;
use self::release::{Release, Rules};
use self::rules::{Settings, decide};
use super::handlers::Configured;
use super::model::{
    CdiSupport, ContainerdFacts, DisabledCri, Runtime, RuntimeKind, SettingPlace, Source,
};
use super::running::{self, Running};
use crate::files::HostFiles;
use crate::packages;

const PROGRAMS: [&str; 2] = ["/usr/bin/containerd", "/usr/local/bin/containerd"];
/// Docker's package, and the distribution's.
const PACKAGES: [&str; 2] = ["containerd.io", "containerd"];

const DEFAULT_CONFIG: &str = "/etc/containerd/config.toml";

/// A configuration, and what reads it.
struct Config<'a> {
    path: &'a str,
    version: Option<String>,
    files: Vec<ConfigFile>,
    /// By the rules of the release, or of each that it may be.
    settings: Result<Vec<Settings>, ConfigError>,
}

/// One for each configuration: the default one, those of k3s and RKE2, and those
/// of other processes.
pub(super) fn find(files: &HostFiles) -> Vec<Runtime> {
    let running = running::find(files, "containerd");
    let mut configs: Vec<Config<'_>> = Vec::new();
    let installed = files.first_existing(&PROGRAMS);
    let runs = |config: &str| running.iter().find(|it| it.config() == config);
    let program = |config: &str| runs(config).and_then(|it| it.program.as_deref());
    if installed.is_some() || files.exists(DEFAULT_CONFIG) {
        let program = program(DEFAULT_CONFIG).or(installed);
        let version = packages::version(files, &PACKAGES, program);
        configs.push(Config::read(files, DEFAULT_CONFIG, version));
    }
    let bundled = rancher::CONFIGS.into_iter().filter(|it| files.exists(it));
    for path in bundled.chain(running.iter().map(Running::config)) {
        if configs.iter().all(|known| known.path != path) {
            let version = packages::version(files, &[], program(path));
            configs.push(Config::read(files, path, version));
        }
    }
    // Docker has a containerd of its own, which does not serve kubelet.
    let is_listed = |config: &Config<'_>| {
        !config.is_without_cri() || config.path == DEFAULT_CONFIG || runs(config.path).is_none()
    };
    configs.retain(is_listed);
    let serving: Vec<&str> = configs
        .iter()
        .filter(|config| !config.is_without_cri() && runs(config.path).is_some())
        .map(|config| config.path)
        .collect();
    // Beside one that runs, one that is only installed runs no pods.
    let is_used = |path: &str| serving.is_empty() || serving.contains(&path);
    let found = configs.iter();
    found
        .map(|config| {
            let path = runs(config.path).and_then(|it| it.path.as_deref());
            config.runtime(files, is_used(config.path), path)
        })
        .collect()
}

/// The line, from 1, of a name in `disabled_plugins`.
fn line_of(text: &str, name: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let listed = table.get_ref().get("disabled_plugins")?.get_ref();
    let mut items = listed.as_array()?.iter();
    let is_name = |item: &DeValue<'_>| item.as_str() == Some(name);
    let start = items.find(|item| is_name(item.get_ref()))?.span().start;
    Some(text.get(..start)?.matches('\n').count() + 1)
}

// === impl Running ===

impl Running {
    /// The file that it reads: without an option, the default one.
    fn config(&self) -> &str {
        self.config.as_deref().unwrap_or(DEFAULT_CONFIG)
    }
}

// === impl Config ===

impl<'a> Config<'a> {
    fn read(files: &HostFiles, path: &'a str, version: Option<String>) -> Self {
        let release = version.as_deref().and_then(Release::parse);
        let read = files::read_all(files, path, release);
        let decided = read.and_then(|files| {
            let settings = possible(path, &files, release).map_err(ConfigError::Refused)?;
            Ok((files, settings))
        });
        let (files, settings) = match decided {
            Ok((files, settings)) => (files, Ok(settings)),
            Err(error) => (vec![], Err(error)),
        };
        Self {
            path,
            version,
            files,
            settings,
        }
    }

    /// What every release that it may be says alike, the oldest one's otherwise.
    fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref().ok()?.first()
    }

    fn is_without_cri(&self) -> bool {
        let settings = self.settings.as_deref().unwrap_or_default();
        !settings.is_empty() && settings.iter().all(|it| it.disabled.is_some())
    }

    fn cdi(&self) -> CdiSupport {
        let settings = self.settings.as_deref().unwrap_or_default();
        if settings.iter().all(|it| it.cdi) {
            CdiSupport::On
        } else if settings.iter().any(|it| it.cdi) {
            CdiSupport::Unknown
        } else {
            CdiSupport::Off
        }
    }

    /// The one that every release that it may be has.
    fn handler(&self) -> Option<&Configured> {
        let all = self.settings.as_deref().unwrap_or_default();
        let first = all.first()?.handler.as_ref()?;
        let alike = |it: &Settings| it.handler.as_ref() == Some(first);
        all.iter().all(alike).then_some(first)
    }

    fn spec_dirs(&self) -> Option<&(Vec<String>, Place)> {
        let all = self.settings.as_deref().unwrap_or_default();
        let first = all.first()?.spec_dirs.as_ref()?;
        let alike = |it: &Settings| it.spec_dirs.as_ref().is_some_and(|it| it.0 == first.0);
        all.iter().all(alike).then_some(first)
    }

    /// `path` is where its process looks up programs, if that is known.
    fn runtime(&self, files: &HostFiles, is_used: bool, path: Option<&str>) -> Runtime {
        let cdi = self.cdi();
        let decided = match cdi {
            CdiSupport::Off | CdiSupport::Unknown => self.settings().map(|it| &it.cdi_place),
            CdiSupport::On => self.spec_dirs().map(|it| &it.1),
        };
        let decided_file = decided.map(|place| place.file.as_str());
        let config = decided_file.unwrap_or(self.path);
        let in_vain = self.settings().and_then(|it| it.in_vain.as_ref());
        let disabled = self.settings().and_then(|it| it.disabled.as_ref());
        let handler = self.handler().cloned();
        let is_without_cri = self.is_without_cri();
        Runtime {
            kind: RuntimeKind::Containerd,
            version: self.version.clone(),
            cdi,
            spec_dirs: self.spec_dirs().map(|it| it.0.clone()),
            config: files.exists(config).then(|| config.to_owned()),
            config_error: self.settings.as_ref().err().map(|error| match error {
                ConfigError::Unreadable(error) | ConfigError::Refused(error) => error.clone(),
            }),
            cannot_start: matches!(self.settings, Err(ConfigError::Refused(_))),
            runs_pods: is_used && !is_without_cri,
            default_handler: handler.map(|it| it.look_up(files, path)),
            containerd: ContainerdFacts {
                place: decided.map(|place| self.place(files, place)),
                in_vain: in_vain.map(|place| place_itself(place, Source::Itself)),
                disabled: disabled
                    .filter(|_| is_without_cri)
                    .and_then(|it| disabled_cri(files, it)),
                service: self.service(files),
            },
        }
    }

    fn place(&self, files: &HostFiles, place: &Place) -> SettingPlace {
        match (self.files.first(), Distribution::of(self.path)) {
            (None, _) => place_itself(place, Source::Absent),
            (Some(config), Some(distribution)) if config.path == place.file => {
                distribution.place(files, config, place)
            }
            _ => place_itself(place, Source::Itself),
        }
    }

    fn service(&self, files: &HostFiles) -> Option<String> {
        match Distribution::of(self.path) {
            Some(distribution) => Some(distribution.service(files)),
            None => (self.path == DEFAULT_CONFIG).then(|| "containerd".to_owned()),
        }
    }
}

/// By the rules of the release; if that is not known, of each that starts with the
/// configuration.
fn possible(
    path: &str,
    files: &[ConfigFile],
    release: Option<Release>,
) -> Result<Vec<Settings>, String> {
    if let Some(release) = release {
        return decide(path, files, release.rules()).map(|settings| vec![settings]);
    }
    let all = Rules::POSSIBLE.map(|rules| decide(path, files, rules));
    let newest = all.last().cloned();
    let found: Vec<Settings> = all.into_iter().flatten().collect();
    match newest {
        Some(Err(error)) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

fn place_itself(place: &Place, source: Source) -> SettingPlace {
    SettingPlace {
        file: place.file.clone(),
        plugin: place.plugin,
        source,
    }
}

fn disabled_cri(files: &HostFiles, disabled: &Disabled) -> Option<DisabledCri> {
    let Disabled { file, name } = disabled;
    let text = files.text_if_readable(file)?;
    Some(DisabledCri {
        line: line_of(&text, name)?,
        file: file.clone(),
        name: name.clone(),
    })
}
