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
        "abort in the second call" => {
            socket
                .write_all(b"call nvmlFirst\ncall nvmlSecond\n")
                .unwrap();
            std::process::abort()
        }
        "garbage" => socket.write_all(b"\xff{\n").unwrap(),
        "flood" => while socket.write_all(&[b'x'; 4096]).is_ok() {},
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
    let command = format!("exec env {SCENARIO}='{scenario}' \"$@\"");
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
fn of_several_calls_the_failure_has_the_last_one() {
    assert_eq!(
        faulty("abort in the second call", GIVE_UP),
        "nvmlSecond ended its process with SIGABRT"
    );
}

#[test]
fn a_program_that_does_not_serve_is_not_started_again() {
    // A test program's `main` does not serve.
    let this = SessionProgram::this(GIVE_UP);
    let error = NvmlProcess::open(&this, &DriverRoot::new("/")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the NVML process cannot start: main of this program does not begin with nvml_session::serve_if_started"
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
fn a_library_that_writes_without_end_is_an_error_at_once() {
    assert_eq!(
        faulty("flood", GIVE_UP),
        "nvmlInitWithFlags returned more than an answer can have"
    );
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

/// Not a test: a program that waits for a process that hangs.
#[test]
#[ignore = "started by the other tests"]
fn parent() {
    faulty("hang", GIVE_UP);
}

#[test]
fn a_process_does_not_outlive_its_parent() {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::tests::parent", "--ignored"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let child = until(|| child_of(parent.id()));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until(|| (!is_alive(&child)).then_some(()));
}

/// The process that a thread of `parent` has started.
fn child_of(parent: u32) -> Option<String> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let children = threads.filter_map(|thread| {
        let path = thread.ok()?.path().join("children");
        let children = std::fs::read_to_string(path).ok()?;
        children.split_whitespace().next().map(str::to_owned)
    });
    // Before exec, it is a copy of the parent.
    let has_started = |child: &String| {
        let line = std::fs::read_to_string(format!("/proc/{child}/cmdline"));
        line.is_ok_and(|line| line.contains("faulty_child"))
    };
    children.into_iter().find(has_started)
}

fn is_alive(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|it| it.1);
    state.is_some_and(|state| !state.starts_with('Z'))
}

/// Polls, and gives up after [`GIVE_UP`].
fn until<T>(condition: impl Fn() -> Option<T>) -> T {
    let began = std::time::Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(began.elapsed() < GIVE_UP, "the condition was never met");
        std::thread::sleep(Duration::from_millis(5));
    }
}
