use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// Copies a program of this machine with its loader and libraries to a root.
fn root_with(root: &Path, program: &str, name: &str) {
    let ldd = Command::new("ldd").arg(program).output().unwrap();
    let listed = String::from_utf8(ldd.stdout).unwrap();
    let files = listed.split_whitespace().filter(|it| it.starts_with('/'));
    for file in files {
        copy(root, file, file);
    }
    copy(root, program, &format!("/usr/bin/{name}"));
}

fn copy(root: &Path, from: &str, to: &str) {
    let to = root.join(to.trim_start_matches('/'));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
}

/// Runs the program with these arguments.
fn run(program: &RootProgram, args: &[&str]) -> std::process::Output {
    loop {
        match program.command().args(args).output() {
            // A parallel test forked while the file was being written, and holds it open until its exec.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {}
            output => break output.unwrap(),
        }
    }
}

fn find(root: &Path, name: &str) -> Result<RootProgram, RootProgramError> {
    RootProgram::find(&DriverRoot::new(root), name)
}

// req: DAEMON-2
#[test]
fn a_program_runs_with_the_loader_of_its_root_and_sees_the_callers_files() {
    let dir = tempfile::tempdir().unwrap();
    root_with(dir.path(), "/bin/cat", "imex");
    let program = find(dir.path(), "imex").unwrap();
    let output = run(&program, &["/proc/self/maps"]);
    let maps = String::from_utf8(output.stdout).unwrap();
    let files = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    let code: Vec<_> = files
        .filter(|file| file.contains(".so") || file.ends_with("/imex"))
        .collect();
    let root = fs::canonicalize(dir.path()).unwrap();
    assert!(code.iter().any(|file| file.contains("libc.so")), "{maps}");
    for file in code {
        assert!(Path::new(file).starts_with(&root), "{file} is the caller's");
    }
    let shown = program.to_string();
    assert!(
        shown.contains("/usr/bin/imex by ") && shown.contains("ld-"),
        "{shown}"
    );
}

// req: DAEMON-2
#[test]
fn a_program_of_a_driver_container_runs_with_the_containers_loader() {
    let dir = tempfile::tempdir().unwrap();
    let nested = dir.path().join("run/nvidia/driver");
    root_with(&nested, "/bin/true", "imex");
    let program = find(dir.path(), "imex").unwrap();
    assert_eq!(program.root().path(), nested);
    assert!(Path::new(program.command().get_program()).starts_with(&nested));
    assert!(run(&program, &[]).status.success());
}

#[test]
fn a_loader_behind_an_absolute_link_is_that_of_the_root() {
    let dir = tempfile::tempdir().unwrap();
    root_with(dir.path(), "/bin/true", "imex");
    let program = find(dir.path(), "imex").unwrap();
    let loader = PathBuf::from(program.command().get_program());
    fs::rename(&loader, dir.path().join("usr/real-loader")).unwrap();
    symlink("/usr/real-loader", &loader).unwrap();
    let program = find(dir.path(), "imex").unwrap();
    assert_eq!(
        Path::new(program.command().get_program()),
        dir.path().join("usr/real-loader")
    );
    assert!(run(&program, &[]).status.success());
}

// req: DAEMON-2
#[test]
fn a_missing_program_or_loader_is_reported_with_the_searched_places() {
    let dir = tempfile::tempdir().unwrap();
    let error = find(dir.path(), "imex").unwrap_err();
    let root = dir.path().display();
    assert_eq!(error.code(), "program-missing");
    assert_eq!(
        error.to_string(),
        format!(
            "imex was not found in the 8 usual places below {root} or its subdirectories run/nvidia/driver and home/kubernetes/bin/nvidia"
        )
    );
    root_with(dir.path(), "/bin/true", "imex");
    let program = find(dir.path(), "imex").unwrap();
    fs::remove_file(program.command().get_program()).unwrap();
    let error = find(dir.path(), "imex").unwrap_err();
    assert_eq!(error.code(), "loader-missing");
    assert!(error.to_string().ends_with("does not exist"), "{error}");
}

#[test]
fn a_script_and_a_program_below_slash_are_run_directly() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("usr/bin/imex");
    fs::create_dir_all(script.parent().unwrap()).unwrap();
    fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let program = find(dir.path(), "imex").unwrap();
    assert_eq!(program.command().get_program(), script);
    assert_eq!(program.to_string(), script.display().to_string());
    let own = RootProgram::find(&DriverRoot::new("/"), "sh").unwrap();
    assert_eq!(own.loader, None);
    assert!(run(&own, &["-c", "exit 0"]).status.success());
}
