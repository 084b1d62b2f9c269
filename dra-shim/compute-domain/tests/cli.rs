//! Tests of the plugin's command line. The tests of `compute-domain-api`, which also run this
//! program, have the table of modes.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where its expectation fails"
)]

use std::process::{Command, Output};

fn run(args: &[&str], env: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_compute-domain-kubelet-plugin"))
        .args(args)
        .env_clear()
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

// req: MODE-9, MODE-12
#[test]
fn a_configuration_error_is_one_line_with_the_fix() {
    let node = ("NODE_NAME", "node-a");
    for (args, env, parts) in [
        (&[][..], &[][..], ["--node-name", "--help"]),
        (
            &[],
            &[node, ("IMEX_MODE", "hostManaged")],
            [
                "requires the HostManagedIMEX feature gate",
                "featureGates.HostManagedIMEX=true",
            ],
        ),
        (
            &["--imex-mode=foo"],
            &[node, ("FEATURE_GATES", "HostManagedIMEX=true,")],
            ["\"foo\"", "hostManaged"],
        ),
        (
            &["--feature-gates=HostManagedIMEX=true"],
            &[node],
            ["no service account", "KUBECONFIG"],
        ),
        (&["--healthcheck-port=http"], &[node], ["'http'", "--help"]),
    ] {
        let output = run(args, env);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?} {env:?}: {stderr}");
        let refusals: Vec<&str> = stderr
            .lines()
            .filter(|line| line.starts_with("Error: "))
            .collect();
        let [refusal] = refusals.as_slice() else {
            panic!("{args:?} {env:?}: {stderr}")
        };
        for part in parts {
            assert!(refusal.contains(part), "{args:?} {env:?}: {refusal}");
        }
    }
}

#[test]
fn help_and_version_succeed() {
    for flag in ["--help", "--version"] {
        assert_eq!(run(&[flag], &[]).status.code(), Some(0), "{flag}");
    }
}
