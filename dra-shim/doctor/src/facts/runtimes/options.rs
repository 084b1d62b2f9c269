//! Options of a runtime that stand for settings of its configuration.

use crate::command_line;
use crate::files::HostFiles;
use crate::processes::processes;
use crate::systemd::DIRS;

/// Where distributions have variables of services' units.
const VARIABLES: [&str; 2] = ["/etc/default", "/etc/sysconfig"];

/// Whether the process `name`, or the unit that starts it, has an option that begins with
/// one of `options`, or may have it.
pub(super) fn may_have(files: &HostFiles, name: &str, unit: &str, options: &[&str]) -> bool {
    let has = |text: &str| {
        let mut words = text.split(|it: char| it.is_whitespace() || "='\"".contains(it));
        words.any(|word| options.iter().any(|option| word.starts_with(option)))
    };
    let running = processes(files).into_iter().filter(|it| it.name == name);
    let mut lines = running.map(|it| command_line::arguments(files, it.pid));
    let by_process = lines.any(|line| match line {
        Ok(arguments) => arguments.is_some_and(|it| it.iter().any(|word| has(word))),
        Err(_) => true,
    });
    let units = DIRS.iter().map(|dir| format!("{dir}/{unit}.service"));
    let changes = DIRS.iter().map(|dir| format!("{dir}/{unit}.service.d"));
    let variables = VARIABLES.iter().flat_map(|dir| {
        let names = files.list(dir).into_iter();
        let names = names.filter(|name| name.starts_with(unit));
        names.map(move |name| format!("{dir}/{name}"))
    });
    let mut paths = units.chain(files.drop_ins(changes)).chain(variables);
    let by_unit = paths.any(|path| match files.read_text(&path) {
        Ok(text) => text.is_some_and(|text| has(&text)),
        Err(_) => true,
    });
    by_process || by_unit
}
