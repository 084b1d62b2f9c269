//! Whether the node's kubelet plugin leaves IMEX to the host or to this driver's IMEX daemon. No
//! file shows that, but the options and environment of the plugin's process do.

use crate::dra_driver::DraDriver;
use crate::host::Host;
use crate::processes::{option, plugins};

/// The settings that leave IMEX to the host, each with its option, its variable and its value.
/// If the mode is set, it decides. NVIDIA's gate `HostManagedIMEXDaemon` only permits the mode.
const MODE: [&str; 2] = ["--imex-mode", "IMEX_MODE"];
const GATES: [&str; 2] = ["--feature-gates", "FEATURE_GATES"];
const HOST_MANAGED: &str = "hostManaged";
const GATE: &str = "HostManagedIMEX=true";

/// Set in the plugin's pod only if this driver runs IMEX daemons.
const DAEMON_DIR: [&str; 2] = ["--imexd-dir", "IMEXD_DIR"];

/// The plugin's process and the setting that leaves IMEX to the host; `None` also if the process
/// cannot be examined.
pub(super) fn find(host: &Host) -> Option<String> {
    find_plugin(host, host_managed)
}

/// As [`find`], but for a plugin that leaves IMEX to this driver's daemon.
pub(super) fn find_driver_managed(host: &Host) -> Option<String> {
    find_plugin(host, driver_managed)
}

fn find_plugin(
    host: &Host,
    setting: fn(&[String], &str) -> Option<&'static str>,
) -> Option<String> {
    let driver = DraDriver::ComputeDomain;
    plugins(host, driver).find_map(|(pid, arguments)| {
        let environment = host.text_if_readable(&format!("/proc/{pid}/environ"));
        let setting = setting(&arguments, &environment.unwrap_or_default())?;
        let program = driver.program();
        Some(format!("{program} (process {pid}) runs with {setting}"))
    })
}

/// The setting by which this driver runs IMEX.
fn driver_managed(arguments: &[String], environment: &str) -> Option<&'static str> {
    let has_daemon = value(arguments, environment, DAEMON_DIR).is_some();
    (has_daemon && host_managed(arguments, environment).is_none()).then_some("IMEXD_DIR")
}

/// The setting by which the host runs IMEX.
fn host_managed(arguments: &[String], environment: &str) -> Option<&'static str> {
    let value = |names: [&str; 2]| value(arguments, environment, names);
    if let Some(mode) = value(MODE) {
        return (mode == HOST_MANAGED).then_some("IMEX mode hostManaged");
    }
    let mut gates = value(GATES)?.split(',').map(str::trim);
    gates.any(|gate| gate == GATE).then_some(GATE)
}

/// The option's value, else the variable's. An empty value counts as not set.
fn value<'a>(
    arguments: &'a [String],
    environment: &'a str,
    [flag, variable]: [&str; 2],
) -> Option<&'a str> {
    let mut variables = environment.split('\0').filter_map(|it| it.split_once('='));
    let set = || variables.find_map(|(name, value)| (name == variable).then_some(value));
    let value = option(arguments, &[flag]).or_else(set);
    value.filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_precedes_the_gate_and_an_option_precedes_a_variable() {
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
