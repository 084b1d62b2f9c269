//! Whether the node's kubelet plugin leaves IMEX to the host, or to this driver's IMEX daemon: it has no file that
//! says so, but its process was told.

use crate::command_line;
use crate::files::HostFiles;
use crate::processes::processes;

/// The plugin's program, NVIDIA's and this driver's. A process's name has only its
/// beginning, which the controller's has, too.
const PROGRAM: &str = "compute-domain-kubelet-plugin";
const NAME: &str = "compute-domain-";

/// A setting, its option and its variable, and the value that leaves IMEX to the
/// host. The mode decides where it is set. NVIDIA's gate `HostManagedIMEXDaemon` says
/// nothing: it only permits the mode.
const MODE: [&str; 2] = ["--imex-mode", "IMEX_MODE"];
const GATES: [&str; 2] = ["--feature-gates", "FEATURE_GATES"];
const HOST_MANAGED: &str = "hostManaged";
const GATE: &str = "HostManagedIMEX=true";

/// Set in the plugin's pod where this driver runs IMEX daemons, and nowhere else.
const DAEMON_DIR: [&str; 2] = ["--imexd-dir", "IMEXD_DIR"];

/// The process and the setting that it was started with; `None` also where it may
/// not be examined.
pub(super) fn find(files: &HostFiles) -> Option<String> {
    find_plugin(files, host_managed)
}

/// As [`find`], of a plugin that leaves IMEX to this driver's daemon.
pub(super) fn find_driver_managed(files: &HostFiles) -> Option<String> {
    find_plugin(files, driver_managed)
}

fn find_plugin(
    files: &HostFiles,
    setting: fn(&[String], &str) -> Option<&'static str>,
) -> Option<String> {
    let named = processes(files).into_iter().filter(|it| it.name == NAME);
    named.into_iter().find_map(|process| {
        let arguments = command_line::arguments(files, process.pid).ok()??;
        let is_plugin = arguments.first().is_some_and(|it| it.ends_with(PROGRAM));
        let environment = files.text_if_readable(&format!("/proc/{}/environ", process.pid));
        let environment = environment.unwrap_or_default();
        let setting = setting(&arguments, &environment).filter(|_| is_plugin)?;
        Some(format!("{PROGRAM} (process {}) has {setting}", process.pid))
    })
}

/// What says that this driver runs IMEX.
fn driver_managed(arguments: &[String], environment: &str) -> Option<&'static str> {
    let has_daemon = value(arguments, environment, DAEMON_DIR).is_some();
    (has_daemon && host_managed(arguments, environment).is_none()).then_some("IMEXD_DIR")
}

/// What says that the host runs IMEX.
fn host_managed(arguments: &[String], environment: &str) -> Option<&'static str> {
    let value = |names: [&str; 2]| value(arguments, environment, names);
    if let Some(mode) = value(MODE) {
        return (mode == HOST_MANAGED).then_some("the IMEX mode hostManaged");
    }
    let mut gates = value(GATES)?.split(',').map(str::trim);
    gates.any(|gate| gate == GATE).then_some(GATE)
}

/// The option's value, else the variable's; an empty one is not set.
fn value<'a>(
    arguments: &'a [String],
    environment: &'a str,
    [option, variable]: [&str; 2],
) -> Option<&'a str> {
    let mut words = arguments.iter();
    let given = words.find_map(|word| match word.split_once('=') {
        Some((name, value)) => (name == option).then_some(value),
        None => None,
    });
    let mut pairs = arguments.iter().zip(arguments.iter().skip(1));
    let beside = pairs.find_map(|(name, value)| (name == option).then_some(value.as_str()));
    let mut variables = environment.split('\0').filter_map(|it| it.split_once('='));
    let set = variables.find_map(|(name, value)| (name == variable).then_some(value));
    given.or(beside).or(set).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_decides_before_the_gate_and_an_option_before_a_variable() {
        for (line, environment, is_hosts) in [
            ("p", "", false),
            ("p --imex-mode=hostManaged", "", true),
            ("p --imex-mode hostManaged", "", true),
            ("p", "A=1\0IMEX_MODE=hostManaged\0", true),
            (
                "p --imex-mode=driverManaged",
                "IMEX_MODE=hostManaged",
                false,
            ),
            (
                "p",
                "IMEX_MODE=\0FEATURE_GATES=A=true,HostManagedIMEX=true\0",
                true,
            ),
            ("p --feature-gates=HostManagedIMEX=true", "", true),
            ("p", "FEATURE_GATES=HostManagedIMEXDaemon=true", false),
        ] {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = host_managed(&arguments, environment).is_some();
            assert_eq!(found, is_hosts, "{line} {environment:?}");
            let with_daemon = format!("{environment}\0IMEXD_DIR=/run/imexd");
            let found = driver_managed(&arguments, &with_daemon).is_some();
            assert_eq!(found, !is_hosts, "{line} {with_daemon:?}");
            assert_eq!(driver_managed(&arguments, ""), None);
        }
    }
}
