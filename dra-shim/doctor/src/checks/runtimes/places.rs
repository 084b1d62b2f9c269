//! Where a setting is made, for people.

use crate::facts::runtimes::model::{Runtime, SettingPlace, Source};

/// What to restart.
pub(super) fn service(runtime: &Runtime) -> &str {
    let service = runtime.containerd.service.as_deref();
    service.unwrap_or(runtime.kind.as_str())
}

/// Where the setting belongs.
pub(super) fn place(runtime: &Runtime) -> String {
    let Some(place) = &runtime.containerd.place else {
        return String::new();
    };
    let SettingPlace { file, source, .. } = place;
    let table = table(place);
    match source {
        Source::Itself => format!(", in {table} of {file}"),
        Source::Absent => {
            format!(", in {table} of {file} (to be made, and to begin with version = 2)")
        }
        Source::DropIn => format!(", in {table} of {file} (to be made if it is not there)"),
        Source::Template { of, exists: true } => {
            format!(", in {table} of {file}, from which {of} makes the configuration")
        }
        Source::Template { of, exists: false } => format!(
            ", in {table} of {file} (to be made from {of}'s default template, which has the table)"
        ),
    }
}

/// A setting that a reader of the file takes for one that counts.
pub(super) fn in_vain(runtime: &Runtime) -> String {
    let (Some(vain), Some(place)) = (&runtime.containerd.in_vain, &runtime.containerd.place) else {
        return String::new();
    };
    let setting = format!("; enable_cdi = true in {} of {}", table(vain), vain.file);
    if vain.plugin == place.plugin {
        format!(
            "{setting} does not count: the table in {} replaces that one",
            place.file
        )
    } else {
        format!(
            "{setting} does not count: with this version of the file it reads {}",
            table(place)
        )
    }
}

/// As a file has it.
fn table(place: &SettingPlace) -> String {
    if place.plugin.contains('.') {
        format!("[plugins.\"{}\"]", place.plugin)
    } else {
        format!("[plugins.{}]", place.plugin)
    }
}
