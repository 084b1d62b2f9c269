use std::os::fd::AsFd;

use super::*;

/// Not a test: this program, started again by the tests as a process with a session.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    serve::serve();
}

/// A process that does what `scenario` says instead of serving.
#[test]
#[ignore = "started by the other tests"]
fn faulty_child() {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    // Closed with an unread request, the socket would be reset.
    let mut request = String::new();
    BufReader::new(&socket).read_line(&mut request).unwrap();
    match std::env::var(SCENARIO).unwrap().as_str() {
        "abort" => std::process::abort(),
        "exit" => std::process::exit(3),
        "hang" => loop {
            std::thread::park();
        },
        "garbage" => socket.write_all(b"\xff{\n").unwrap(),
        "half" => socket.write_all(b"{").unwrap(),
        other => panic!("no scenario {other}"),
    }
}

const SCENARIO: &str = "NVML_PROCESS_SCENARIO";

fn program(test: &str, deadline: Duration) -> SessionProgram {
    let test = format!("process::tests::{test}");
    let exe = std::env::current_exe().unwrap();
    SessionProgram::new(exe, ["--exact", &test, "--ignored"], deadline)
}

/// Opens a session in a process with `scenario`, through a shell that sets the variable.
fn faulty(scenario: &str, deadline: Duration) -> String {
    let mut program = program("faulty_child", deadline);
    let exe = std::mem::replace(&mut program.path, "/bin/sh".into());
    let command = format!("exec env {SCENARIO}={scenario} \"$@\"");
    let mut args: Vec<OsString> = ["-c", &command, "sh"].map(OsString::from).to_vec();
    args.push(exe.into());
    args.append(&mut program.args);
    program.args = args;
    let root = DriverRoot::new("/nowhere");
    NvmlProcess::open(&program, &root).unwrap_err().to_string()
}

const GIVE_UP: Duration = Duration::from_secs(60);

#[test]
fn a_library_that_ends_its_process_is_an_error_with_the_call_and_the_signal() {
    let ended = |scenario| faulty(scenario, GIVE_UP);
    assert_eq!(
        ended("abort"),
        "nvmlInitWithFlags ended its process with SIGABRT"
    );
    assert_eq!(
        ended("exit"),
        "nvmlInitWithFlags ended its process with exit code 3"
    );
}

#[test]
fn a_call_that_does_not_return_is_an_error_at_the_deadline() {
    assert_eq!(
        faulty("hang", Duration::from_millis(300)),
        "nvmlInitWithFlags did not return within 0.3 s"
    );
}

#[test]
fn an_answer_that_is_no_answer_is_an_error() {
    for scenario in ["garbage", "half"] {
        let error = faulty(scenario, GIVE_UP);
        assert!(
            error.starts_with("nvmlInitWithFlags returned a value of the wrong type: "),
            "{error}"
        );
    }
}

#[test]
fn a_missing_library_is_an_error_and_the_next_process_is_not_affected() {
    let dir = tempfile::tempdir().unwrap();
    let root = DriverRoot::new(dir.path());
    for _ in 0..2 {
        let error = NvmlProcess::open(&program("child", GIVE_UP), &root).unwrap_err();
        let expected = "NVML: libnvidia-ml.so.1 was not found in the ";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    let mut program = program("child", GIVE_UP);
    program.path = "/nowhere".into();
    let error = NvmlProcess::open(&program, &DriverRoot::new("/")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the NVML process cannot start: "),
        "{error}"
    );
}
