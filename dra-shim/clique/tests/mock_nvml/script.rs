//! `hack/mock-driver.sh`, which creates the driver roots of the cluster's nodes.

use std::path::Path;
use std::process::{Command, Output};

use nvml_clique::{DriverRoot, Fabric, FabricProbe, NvmlProbe};

use crate::support::{self, OTHER_RACK, RACK, library};

fn mock_driver(root: &Path, options: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/mock-driver.sh");
    Command::new(script)
        .arg(root)
        .arg("--library")
        .arg(library())
        .args(options)
        .output()
        .unwrap()
}

/// The fabric after a run of the script with these options.
fn fabric(root: &Path, options: &[&str]) -> Fabric {
    let output = mock_driver(root, options);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options:?}: {errors}");
    support::fabric(root)
}

#[test]
fn the_script_creates_breaks_and_repairs_a_root() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let clique = format!("{RACK}.0");
    let elsewhere = format!("1:clique={OTHER_RACK}.0");
    let table: [(&[&str], &str); 10] = [
        (&["--clique", &clique], "clique"),
        (&["--gpus", "2", "--gpu", &elsewhere], "gpus-disagree"),
        (&["--gpus", "0"], "no-gpus"),
        (&["--state", "in-progress"], "fabric-in-progress"),
        (&["--gpu", "3:status=999"], "fabric-failed"),
        (&["--gpu", "0:health=0x1"], "clique-degraded"),
        (&["--error", "nvmlInitWithFlags=18"], "nvml-error"),
        (&["--without", "nvmlShutdown"], "nvml-symbol-missing"),
        (&["--no-library"], "nvml-missing"),
        (
            &["--fabric-info", "1", "--delay", "nvmlDeviceGetName@1=1"],
            "clique",
        ),
    ];
    for (options, code) in table {
        let fabric = fabric(root, options);
        assert_eq!(fabric.code(), code, "{options:?}: {fabric}");
    }
}

#[test]
fn the_tools_of_the_root_are_found_and_work() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--imex-state", "WAITING_FOR_PEERS", "--gpus", "1"];
    assert_eq!(fabric(dir.path(), &options).code(), "clique");
    let root = DriverRoot::new(dir.path());
    let output_of = |tool: &str, argument: &str| {
        let output = Command::new("/bin/sh")
            .arg(root.find_tool(tool).unwrap())
            .arg(argument)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!(output_of("nvidia-imex-ctl", "-q"), "WAITING_FOR_PEERS\n");
    assert!(output_of("nvidia-smi", "-L").starts_with("GPU 0: NVIDIA GB200 (UUID: GPU-"));
}

#[test]
fn a_mistyped_option_is_refused_and_installs_no_library() {
    let dir = tempfile::tempdir().unwrap();
    for (options, message) in [
        (["--clique", "rack-1"], "a clique is UUID.ID, not 'rack-1'"),
        (["--without", "nvmlNope"], "the mock has no such symbol"),
        (["--gpu", "x"], "--gpu needs I:KEY=VALUE"),
        (["--gpus", "many"], "--gpus needs a number"),
        (["--nope", "1"], "unknown option --nope"),
    ] {
        let output = mock_driver(&dir.path().join("root"), &options);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{options:?}");
        assert!(errors.contains(message), "{options:?}: {errors}");
    }
    assert_eq!(
        NvmlProbe::new(DriverRoot::new(dir.path().join("root")))
            .read()
            .map_err(|error| Fabric::from(error).code()),
        Err("nvml-missing")
    );
}
