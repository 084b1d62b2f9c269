//! The explicit CDI settings in a runtime's files.

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::model::{CdiSettings, CdiSupport, DisabledCri, Misplaced};
use crate::host::Host;

pub(super) const CRIO_CONFIG: &str = "/etc/crio/crio.conf";
pub(super) const CRIO_DROP_INS: &str = "/etc/crio/crio.conf.d";

const ENABLE: &str = "enable_cdi";
const SPEC_DIRS: &str = "cdi_spec_dirs";

/// The names of containerd's CRI plugin, by the version of a file.
const OF_1: &str = "cri";
const OF_2: &str = "io.containerd.grpc.v1.cri";
const OF_3: &str = "io.containerd.cri.v1.runtime";

/// The plugins without which containerd does not serve kubelet.
const NEEDED: [&str; 4] = [OF_1, OF_2, OF_3, "io.containerd.cri.v1.images"];

/// The depth to which directories of drop-ins are searched, deeper than any real one.
const MAX_DEPTH: usize = 8;

/// A CDI setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Enable,
    SpecDirs,
}

/// The files of a configuration that may decide.
#[derive(Debug, Default)]
pub(super) struct ConfigFiles {
    files: Vec<ConfigFile>,
    /// Why other files may decide, too.
    others: Option<String>,
}

#[derive(Debug)]
struct ConfigFile {
    path: String,
    /// The table of the runtime's settings.
    own: Option<Table>,
    /// The name of that table, `plugins."io.containerd.cri.v1.runtime"`.
    place: String,
    /// The version of containerd's file, 1 if not set.
    version: i64,
    all: Table,
}

/// The value of a setting in all files that have the table.
enum MergedSetting<'a> {
    Nothing,
    Alike(&'a Value),
    Differently(&'a str, &'a str),
}

/// Why a configuration cannot be used, for a finding. Neither variant quotes the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TomlError {
    /// It cannot be read from here.
    Unreadable(String),
    /// It is not TOML.
    Malformed(String),
}

// === reading ===

/// Reads a configuration of containerd and the files that it imports.
pub(super) fn containerd(host: &Host, config: &str) -> Result<ConfigFiles, TomlError> {
    let mut written = ConfigFiles::default();
    let Some(main) = read_toml(host, config)? else {
        return Ok(written);
    };
    let imports = main.get("imports").and_then(strings).unwrap_or_default();
    written.files.push(ConfigFile::of_containerd(config, main));
    for import in imports {
        let Some(paths) = matching(host, config, &import) else {
            let why = format!("{config} imports {import}, and doctor does not follow this import");
            written.others = Some(why);
            continue;
        };
        for path in paths {
            if let Some(table) = read_toml(host, &path)? {
                if table.contains_key("imports") {
                    written.others = Some(format!(
                        "{path} imports more files, and doctor does not follow these imports"
                    ));
                }
                written.files.push(ConfigFile::of_containerd(&path, table));
            }
        }
    }
    Ok(written)
}

/// Reads CRI-O's configuration, with every file below the directory of drop-ins.
pub(super) fn crio(host: &Host) -> Result<ConfigFiles, TomlError> {
    let mut paths = vec![CRIO_CONFIG.to_owned()];
    walk(host, CRIO_DROP_INS, MAX_DEPTH, &mut paths);
    let mut written = ConfigFiles::default();
    for path in paths {
        if let Some(table) = read_toml(host, &path)? {
            written.files.push(ConfigFile::of_crio(&path, table));
        }
    }
    Ok(written)
}

/// The file's content; `None` if it does not exist.
fn read_toml(host: &Host, path: &str) -> Result<Option<Table>, TomlError> {
    let unreadable = |error| TomlError::Unreadable(format!("cannot read {path}: {error}"));
    let text = host.read_text(path).map_err(unreadable)?;
    text.map(|text| text.parse::<Table>())
        .transpose()
        // The error's full text would show the line, which may contain a password.
        .map_err(|error| TomlError::Malformed(format!("{path} is not TOML: {}", error.message())))
}

/// An array of strings.
pub(super) fn strings(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array()?.iter().filter_map(Value::as_str);
    Some(items.map(str::to_owned).collect())
}

/// The files of an import: a path, or all of `DIR/*END`; `None` for any other pattern.
fn matching(host: &Host, config: &str, import: &str) -> Option<Vec<String>> {
    let path = match import.strip_prefix('/') {
        Some(_) => import.to_owned(),
        None => format!("{}/{import}", config.rsplit_once('/')?.0),
    };
    if !path.contains(['*', '?', '[', '\\']) {
        return Some(vec![path]);
    }
    let (dir, name) = path.rsplit_once('/')?;
    let end = name.strip_prefix('*')?;
    if format!("{dir}{end}").contains(['*', '?', '[', '\\']) {
        return None;
    }
    let names = host.list_all(dir)?.into_iter();
    let names = names.filter(|name| name.ends_with(end));
    Some(names.map(|name| format!("{dir}/{name}")).collect())
}

fn walk(host: &Host, dir: &str, depth: usize, found: &mut Vec<String>) {
    for name in host.list(dir) {
        let path = format!("{dir}/{name}");
        if !host.resolve_target(&path).is_dir() {
            found.push(path);
        } else if depth > 0 {
            walk(host, &path, depth - 1, found);
        }
    }
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

// === impl ConfigFile ===

impl ConfigFile {
    fn of_containerd(path: &str, all: Table) -> Self {
        let version = all.get("version").and_then(Value::as_integer).unwrap_or(1);
        let name = match version {
            ..=1 => OF_1,
            2 => OF_2,
            _ => OF_3,
        };
        Self {
            path: path.to_owned(),
            own: plugin(&all, name).cloned(),
            place: place(name),
            version,
            all,
        }
    }

    fn of_crio(path: &str, all: Table) -> Self {
        let runtime = all.get("crio").and_then(|it| it.get("runtime"));
        let own = runtime.and_then(Value::as_table).cloned();
        // CRI-O merges files key by key, so a file without CDI's key decides nothing.
        let own = own.filter(|it| it.contains_key(SPEC_DIRS));
        Self {
            path: path.to_owned(),
            own,
            place: "crio.runtime".to_owned(),
            version: 0,
            all,
        }
    }
}

fn plugin<'a>(all: &'a Table, name: &str) -> Option<&'a Table> {
    all.get("plugins")?.get(name)?.as_table()
}

fn place(plugin: &str) -> String {
    if plugin.contains('.') {
        format!("plugins.\"{plugin}\"")
    } else {
        format!("plugins.{plugin}")
    }
}

// === impl Written ===

impl ConfigFiles {
    /// The settings in containerd's files.
    pub(super) fn of_containerd(&self) -> CdiSettings {
        let (spec_dirs, unclear) = self.spec_dirs();
        let support = match (
            self.setting(ENABLE),
            unclear.or_else(|| self.others.clone()),
        ) {
            (MergedSetting::Alike(Value::Boolean(false)), None) => CdiSupport::Off,
            (MergedSetting::Alike(Value::Boolean(true)), None) => CdiSupport::On,
            (_, Some(why)) => CdiSupport::Unknown(why),
            (MergedSetting::Differently(one, other), _) => {
                CdiSupport::Unknown(differ(ENABLE, one, other))
            }
            (MergedSetting::Nothing | MergedSetting::Alike(_), _) => {
                CdiSupport::Unknown(match (self.files.first(), self.misplaced()) {
                    (None, _) => {
                        "the runtime has no configuration file, so the default of its release applies".to_owned()
                    }
                    (Some(_), Some(misplaced)) => misplaced.why,
                    (Some(main), None) => {
                        format!(
                            "{} does not set {ENABLE}, so the default of the runtime's release applies",
                            main.path
                        )
                    }
                })
            }
        };
        CdiSettings {
            support,
            spec_dirs,
            default_handler: None,
        }
    }

    /// The settings in CRI-O's files. CRI-O always has CDI on.
    pub(super) fn of_crio(&self) -> CdiSettings {
        let (spec_dirs, unclear) = self.spec_dirs();
        CdiSettings {
            support: unclear.map_or(CdiSupport::On, CdiSupport::Unknown),
            spec_dirs,
            default_handler: None,
        }
    }

    /// The directories, or the reason why they are unknown.
    fn spec_dirs(&self) -> (Option<Vec<String>>, Option<String>) {
        match self.setting(SPEC_DIRS) {
            MergedSetting::Alike(value) => (strings(value), None),
            MergedSetting::Differently(one, other) => (None, Some(differ(SPEC_DIRS, one, other))),
            MergedSetting::Nothing => (None, None),
        }
    }

    fn setting(&self, key: &str) -> MergedSetting<'_> {
        let mut tables = self
            .files
            .iter()
            .filter_map(|it| Some((it.path.as_str(), it.own.as_ref()?.get(key))));
        let Some((first, value)) = tables.next() else {
            return MergedSetting::Nothing;
        };
        match tables.find(|(_, other)| *other != value) {
            Some((other, _)) => MergedSetting::Differently(first, other),
            None => value.map_or(MergedSetting::Nothing, MergedSetting::Alike),
        }
    }

    /// A CDI setting in a table of another version than its file's, if no effective table has
    /// it.
    pub(super) fn misplaced(&self) -> Option<Misplaced> {
        if !matches!(self.setting(ENABLE), MergedSetting::Nothing) {
            return None;
        }
        let found = self.files.iter().find_map(|file| {
            let has = |name: &&str| {
                let table = plugin(&file.all, name).filter(|_| place(name) != file.place);
                table.is_some_and(|it| it.contains_key(ENABLE) || it.contains_key(SPEC_DIRS))
            };
            Some((file, [OF_1, OF_2, OF_3].into_iter().find(has)?))
        });
        let (file, name) = found?;
        let (stands, belongs) = (place(name), &file.place);
        let needs = if name == OF_3 { 3 } else { 2 };
        let fix = if file.version < 2 && name != OF_1 {
            format!("write `version = {needs}` as the first line")
        } else {
            format!("move the settings of [{stands}] to [{belongs}]")
        };
        let path = &file.path;
        let version = match file.all.get("version") {
            Some(_) => format!("has version {}", file.version),
            None => "has version 1, because `version` is not set".to_owned(),
        };
        Some(Misplaced {
            why: format!(
                "[{stands}] of {path} has no effect: the file {version}, so containerd reads [{belongs}] instead"
            ),
            fix,
        })
    }

    /// The file and the table that decide on a CDI setting: the last that has it. In containerd
    /// 1.x, a later table replaces all earlier ones.
    pub(super) fn place(&self, key: Key) -> Option<(&str, &str)> {
        let sets = |table: &Table| match key {
            Key::Enable => table.get(ENABLE) == Some(&Value::Boolean(false)),
            Key::SpecDirs => table.contains_key(SPEC_DIRS),
        };
        let mut files = self.files.iter().rev();
        let bad = files.find(|it| it.own.as_ref().is_some_and(sets));
        let with_table = || self.files.iter().rev().find(|it| it.own.is_some());
        let file = bad.or_else(with_table).or_else(|| self.files.first())?;
        Some((&file.path, &file.place))
    }

    /// Whether its files explicitly enable CDI.
    pub(super) fn is_on(&self) -> bool {
        self.others.is_none()
            && matches!(
                self.setting(ENABLE),
                MergedSetting::Alike(Value::Boolean(true))
            )
    }

    /// Whether a file names directories of specs.
    pub(super) fn sets_dirs(&self) -> bool {
        !matches!(self.setting(SPEC_DIRS), MergedSetting::Nothing)
    }

    /// The name of the table for a file of the main file's version.
    pub(super) fn main_table(&self) -> Option<&str> {
        // k0s has an empty main file, which imports files with the tables.
        let mut files = self.files.iter();
        let with_table = files.find(|it| it.own.is_some());
        let file = with_table.or_else(|| self.files.first())?;
        Some(&file.place)
    }

    /// Whether the main file imports `dir`/*.toml.
    pub(super) fn imports(&self, dir: &str) -> bool {
        let main = self.files.first().and_then(|it| it.all.get("imports"));
        let imports = main.and_then(strings).unwrap_or_default();
        imports.iter().any(|it| it.starts_with(&format!("{dir}/")))
    }

    /// The line that keeps containerd from serving kubelet.
    pub(super) fn disabled(&self, host: &Host) -> Option<DisabledCri> {
        self.files.iter().find_map(|file| {
            let listed = file.all.get("disabled_plugins").and_then(strings)?;
            let name = listed
                .into_iter()
                .find(|it| NEEDED.contains(&it.as_str()))?;
            let text = host.text_if_readable(&file.path)?;
            Some(DisabledCri {
                line: line_of(&text, &name)?,
                file: file.path.clone(),
                name,
            })
        })
    }
}

fn differ(key: &str, one: &str, other: &str) -> String {
    format!(
        "{one} and {other} set {key} differently, and the runtime's release decides which file applies"
    )
}
