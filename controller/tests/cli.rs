//! The program's command line, for users and the chart. The table of modes is in the tests of `compute-domain-api`,
//! which run this program, too.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where its expectation fails"
)]

use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_compute-domain-controller");

fn run(args: &[&str], env: &[(&str, &str)]) -> Output {
    Command::new(PROGRAM)
        .args(args)
        .env_clear()
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

/// Checks for exit code 1 and one line on stderr. Returns the line.
fn refusal(args: &[&str], env: &[(&str, &str)]) -> String {
    let output = run(args, env);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?} {env:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?} {env:?}: {stderr}");
    assert!(stderr.starts_with("Error: "), "{stderr}");
    stderr
}

// req: MODE-9
#[test]
fn a_configuration_error_is_one_line_that_names_the_fix() {
    let gate = "--feature-gates=HostManagedIMEX=true";
    for (args, env, parts) in [
        // By environment, as in the chart; flags are in the table of modes.
        (
            &[][..],
            &[("IMEX_MODE", "hostManaged")][..],
            [
                "requires the HostManagedIMEX feature gate",
                "featureGates.HostManagedIMEX=true",
            ],
        ),
        (
            &[],
            &[("FEATURE_GATES", "MPSSupport=yes")],
            ["MPSSupport=yes", "NAME=true"],
        ),
        (
            &[gate],
            &[("IMEX_ISOLATION", "all")],
            ["unknown imex.isolation", "IMEX_ISOLATION"],
        ),
        (
            &[gate, "--leader-election-enabled"],
            &[],
            ["requires the pod's name", "POD_NAME"],
        ),
        (
            &[
                gate,
                "--leader-election-enabled=true",
                "--pod-name=a",
                "--leader-election-renew-deadline=20s",
            ],
            &[],
            ["not in order", "--leader-election-lease-duration"],
        ),
        (
            &[gate],
            &[("IMEX_GROUP_CLAIMS", "true")],
            ["gpuCliqueLabelEnabled", "imex.groupClaims"],
        ),
        (&[gate], &[], ["there is no service account", "KUBECONFIG"]),
        (
            &[gate, "--kubeconfig=/nonexistent"],
            &[],
            ["/nonexistent", "KUBECONFIG"],
        ),
        (
            &["--bogus"],
            &[],
            ["unexpected argument '--bogus'", "--help"],
        ),
        (&["positional"], &[], ["positional", "--help"]),
    ] {
        let line = refusal(args, env);
        for part in parts {
            assert!(line.contains(part), "{args:?} {env:?}: {line}");
        }
    }
}

#[test]
fn help_and_version_succeed() {
    for flag in ["--help", "--version"] {
        assert_eq!(run(&[flag], &[]).status.code(), Some(0), "{flag}");
    }
}

// req: CD-1
#[test]
fn the_crds_of_the_chart_are_those_that_the_program_prints() {
    for kind in ["domains", "cliques"] {
        let output = run(&["crd", kind], &[]);
        assert_eq!(output.status.code(), Some(0));
        let printed = String::from_utf8(output.stdout).unwrap();
        let chart = format!(
            "{}/../deployments/helm/imex-dra/crd/resource.nvidia.com_compute{}.yaml",
            env!("CARGO_MANIFEST_DIR"),
            if kind == "domains" {
                kind
            } else {
                "domaincliques"
            }
        );
        let expected = std::fs::read_to_string(&chart).unwrap();
        assert!(
            printed == expected,
            "compute-domain-controller crd {kind} > {chart}\n{printed}"
        );
    }
}

#[test]
fn a_subcommand_without_api_server_gives_no_verdict() {
    for args in [
        &["apply-crds", "--kubeconfig=/nonexistent"][..],
        &["preflight", "uninstall", "--kubeconfig=/nonexistent"],
    ] {
        assert!(refusal(args, &[]).contains("/nonexistent"));
    }
    // An uninstallation does not check the settings; an upgrade does.
    let host_managed = [("IMEX_MODE", "hostManaged")];
    let upgrade = refusal(&["preflight", "upgrade"], &host_managed);
    assert!(upgrade.contains("HostManagedIMEX"), "{upgrade}");
    assert!(refusal(&["preflight", "reinstall"], &[]).contains("reinstall"));
}
