//! Files that are not checkpoints.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{io, io::Write as _};

use dra_checkpoint::BootId;
use serde_json::Value;

use super::{GO_REWRITES_IDENTICALLY, cdi_gen, fixture, run, sealed, stderr, stdout};

const SUBCOMMANDS: [&str; 3] = ["show", "verify --canonical", "verify"];

/// Every subcommand prints this on stderr, once, and ends with exit code 3.
fn assert_refused(path: &Path, what: &str, fix: &str) {
    for subcommand in SUBCOMMANDS {
        let output = run(subcommand, &[path]);
        assert_eq!(output.status.code(), Some(3), "{subcommand}");
        assert_eq!(stdout(&output), "", "{subcommand}");
        let message = stderr(&output);
        let beginning = format!("cdi-gen: cannot read {}: {what}", path.display());
        assert!(message.starts_with(&beginning), "{subcommand}: {message}");
        assert!(message.contains(fix), "{subcommand}: {message}");
        assert_eq!(message.lines().count(), 1, "{subcommand}: {message}");
    }
}

#[test]
fn a_missing_file_has_the_hint_to_check_the_path() {
    let dir = tempfile::tempdir().unwrap();
    // Set aside from another name, or settled: not listed.
    File::create(dir.path().join("other.json.damaged-empty")).unwrap();
    File::create(dir.path().join("checkpoint.json.settled-empty")).unwrap();
    let missing = dir.path().join("checkpoint.json");
    assert_refused(
        &missing,
        "No such file",
        "; check the path; set --kubelet-root",
    );
    assert_refused(
        Path::new("/nonexistent/x.json"),
        "No such file",
        "--kubelet-root",
    );
}

#[test]
fn a_missing_file_has_a_hint_at_those_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let aside = [
        "checkpoint.json.damaged-empty",
        "checkpoint.json.damaged-layout-2",
    ];
    for name in aside {
        File::create(dir.path().join(name)).unwrap();
    }
    let fix = aside.map(|name| dir.path().join(name).display().to_string());
    let missing = dir.path().join("checkpoint.json");
    assert_refused(&missing, "No such file", &fix.join(", "));
    // Also for a name without a directory.
    let output = cdi_gen()
        .current_dir(dir.path())
        .args(["show", "checkpoint.json"])
        .output()
        .unwrap();
    let named = format!("see {}\n", aside.join(", "));
    assert!(stderr(&output).ends_with(&named), "{}", stderr(&output));
}

#[test]
fn a_directory_has_the_hint_to_pass_the_file_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("checkpoint.json");
    let fix = format!(
        "; pass the file in this directory, for example {}\n",
        file.display()
    );
    assert_refused(dir.path(), "the path is a directory", &fix);
    // There is no file in it.
    fs::create_dir(&file).unwrap();
    let fix = "; the plugin's checkpoint is a file: find out what created this directory, and remove it if it is empty\n";
    assert_refused(&file, "the path is a directory", fix);
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sparse = dir.path().join("checkpoint.json");
    let file = File::create(&sparse).unwrap();
    file.set_len(20 << 30).unwrap();
    assert_refused(
        &sparse,
        "the file is larger than 256 MiB",
        "; the file is too large for a checkpoint",
    );
    file.set_len((256 << 20) + 1).unwrap();
    assert_eq!(run("verify", &[&sparse]).status.code(), Some(3));
}

#[test]
fn an_endless_file_is_refused_in_little_more_memory_than_the_limit() {
    let output = Command::new("sh")
        .args([
            "-c",
            r#"ulimit -v 327680 && exec "$0" checkpoint verify /dev/zero"#,
        ])
        .arg(env!("CARGO_BIN_EXE_cdi-gen"))
        .output()
        .unwrap();
    let message = stderr(&output);
    assert!(
        message.contains("/dev/zero: the file is larger than 256 MiB"),
        "{message}"
    );
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_dash_is_standard_input_of_any_kind() {
    let name = fixture("02-channel-completed.json");
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&fs::read(&name).unwrap()).unwrap();
    drop(ours);
    let (from_pipe, mut pipe) = io::pipe().unwrap();
    pipe.write_all(&fs::read(&name).unwrap()).unwrap();
    drop(pipe);
    for stdin in [
        Stdio::from(File::open(&name).unwrap()),
        Stdio::from(from_pipe),
        Stdio::from(std::os::fd::OwnedFd::from(theirs)),
    ] {
        let output = cdi_gen()
            .args(["verify", "-"])
            .stdin(stdin)
            .output()
            .unwrap();
        assert_eq!(stdout(&output), "/dev/stdin: OK\n", "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for subcommand in SUBCOMMANDS {
        for options in ["--root", "--kubelet-root"] {
            let both = cdi_gen()
                .args([subcommand, "x.json", options, "/"])
                .output();
            assert_eq!(both.unwrap().status.code(), Some(2), "{subcommand}");
        }
    }
}

#[test]
fn the_default_file_is_the_nodes_below_root_and_kubelet_root() {
    let root = tempfile::tempdir().unwrap();
    let kubelets = ["var/lib/kubelet", "var/lib/k0s/kubelet"];
    // The boot id of a named file is compared with this machine's.
    let kernel = root.path().join("proc/sys/kernel/random");
    fs::create_dir_all(&kernel).unwrap();
    let boot = BootId::current().unwrap();
    fs::write(kernel.join("boot_id"), boot.as_str()).unwrap();
    for (kubelet, name) in kubelets.iter().zip(GO_REWRITES_IDENTICALLY) {
        let plugin = root
            .path()
            .join(kubelet)
            .join("plugins/compute-domain.nvidia.com");
        fs::create_dir_all(&plugin).unwrap();
        fs::copy(fixture(name), plugin.join("checkpoint.json")).unwrap();
    }
    for (kubelet, name) in kubelets.iter().zip(GO_REWRITES_IDENTICALLY) {
        let file = root
            .path()
            .join(kubelet)
            .join("plugins/compute-domain.nvidia.com/checkpoint.json");
        for subcommand in SUBCOMMANDS {
            let own = cdi_gen()
                .args(subcommand.split(' '))
                .arg("--root")
                .arg(root.path())
                .args(["--kubelet-root", &format!("/{kubelet}")])
                .output()
                .unwrap();
            let named = run(subcommand, &[&file]);
            assert_eq!(own.status.code(), Some(0), "{}", stderr(&own));
            assert_eq!(stdout(&own), stdout(&named), "{subcommand} {name}");
        }
    }
    let first = cdi_gen()
        .arg("verify")
        .arg("--root")
        .arg(root.path())
        .output();
    assert!(stdout(&first.unwrap()).contains("/var/lib/kubelet/plugins/"));
}

#[test]
fn a_node_without_a_checkpoint_is_one_clear_error() {
    let root = tempfile::tempdir().unwrap();
    for subcommand in SUBCOMMANDS {
        let output = cdi_gen()
            .args(subcommand.split(' '))
            .arg("--root")
            .arg(root.path())
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(3), "{subcommand}");
        let message = stderr(&output);
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(
            message.contains("compute-domain.nvidia.com/checkpoint.json")
                && message.contains("set --kubelet-root if"),
            "{message}"
        );
    }
}

fn gpu_checkpoint() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gpu-checkpoint.json")
}

/// Go reads the devices of this file, but matches names in any case.
#[test]
fn a_whole_gpu_checkpoint_with_devices_in_another_form_is_not_damaged() {
    let file = gpu_checkpoint();
    let verified = run("verify", &[&file]);
    assert_eq!(verified.status.code(), Some(0));
    assert!(stdout(&verified).ends_with(": OK\n"));
    let shown = run("show", &[&file]);
    assert_eq!(shown.status.code(), Some(0));
    let shown = stdout(&shown);
    for text in [
        "driver    gpu.nvidia.com\n",
        "  Completed  ",
        "(gpu-0)",
        "only the driver that wrote this checkpoint",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    // A checksum that does not match is damage of any driver's.
    let text = fs::read_to_string(&file).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let torn = dir.path().join("checkpoint.json");
    fs::write(&torn, text.replacen("gpu-0", "gpu-1", 1)).unwrap();
    assert_eq!(run("verify", &[&torn]).status.code(), Some(1));
}

#[test]
fn the_devices_of_every_checkpoint_of_gos_gpu_plugin_are_shown() {
    for (name, devices) in [
        ("20-gpu-empty.json", 0),
        ("21-gpu-started.json", 0),
        ("22-gpu-completed.json", 1),
        ("23-gpu-all-kinds.json", 3),
        ("24-gpu-no-bootid.json", 1),
    ] {
        let output = run("show --json", &[&fixture(name)]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let claims = report["claims"].as_array().unwrap().iter();
        let found = claims.map(|claim| claim["devices"].as_array().unwrap().len());
        assert_eq!(found.sum::<usize>(), devices, "{name}");
    }
}

#[test]
fn a_claim_with_devices_of_both_drivers_does_not_hide_which_driver_wrote_the_file() {
    let [channels, gpus] = ["compute-domain.nvidia.com", "gpu.nvidia.com"];
    for (name, dir, driver, devices) in [
        ("02-channel-completed.json", "copies", channels, 1),
        ("22-gpu-completed.json", "copies", gpus, 1),
        // Both drivers write such a record.
        ("21-gpu-started.json", gpus, gpus, 0),
    ] {
        let other = if driver == gpus { channels } else { gpus };
        let text = fs::read_to_string(fixture(name)).unwrap();
        let result =
            format!(r#""results":[{{"request":"a","driver":"{other}","pool":"p","device":"d"}},"#);
        let text = sealed(&text.replace(r#""results":["#, &result));
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join(dir).join("checkpoint.json");
        fs::create_dir(parent.path().join(dir)).unwrap();
        fs::write(&file, text).unwrap();
        let output = run("show --json", &[&file]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["driver"], driver, "{name}");
        assert_eq!(report["damage"], Value::Null, "{name}");
        let found = report["claims"][0]["devices"].as_array().unwrap();
        assert_eq!(found.len(), devices, "{name}");
    }
}

#[test]
fn the_checkpoint_of_another_driver_is_whole_and_not_damaged() {
    let text = fs::read_to_string(gpu_checkpoint()).unwrap();
    let text = sealed(&text.replace("gpu.nvidia.com", "gpu.example.com"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("checkpoint.json");
    fs::write(&file, text).unwrap();
    let verified = run("verify", &[&file]);
    assert_eq!(verified.status.code(), Some(0));
    let verdict = stdout(&verified);
    assert!(
        verdict.ends_with(": OK: checkpoint of another driver: gpu.example.com\n"),
        "{verdict}"
    );
    let shown = stdout(&run("show", &[&file]));
    assert!(shown.contains("driver    gpu.example.com\n"), "{shown}");
    assert!(shown.contains("(gpu-0)"), "{shown}");
    let canonical = run("verify --canonical", &[&file]);
    assert_eq!(canonical.status.code(), Some(3));
    let refused = "is not a checkpoint of compute-domain.nvidia.com or gpu.nvidia.com";
    assert!(stderr(&canonical).contains(refused));
}
