//! Allowed callers: root, which kubelet runs as, and the plugin's own user.

use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::unistd::geteuid;

use crate::support::{Claims, Script, start};

const SOCKET: &str = "DRA_KUBELET_TEST_SOCKET";
const NOBODY: u32 = 65534;

/// The other process of the test below: connects, and prints whether the connection is closed.
/// An HTTP/2 server that keeps the connection sends its settings at once.
#[test]
fn a_caller_that_another_test_starts() {
    let Some(socket) = std::env::var_os(SOCKET) else {
        return;
    };
    let mut stream = UnixStream::connect(Path::new(&socket)).unwrap();
    let limit = Duration::from_secs(20);
    stream.set_read_timeout(Some(limit)).unwrap();
    let read = stream.read(&mut [0; 9]);
    println!(
        "read {}",
        read.map_or_else(|error| error.to_string(), |n| n.to_string())
    );
}

/// Runs this program again as `uid`, and returns the result of its connection.
#[cfg(test)]
async fn seen_by(uid: u32, socket: &Path) -> String {
    // Other users may have no access to the directories of the program's own path.
    let mut command = Command::new("/proc/self/exe");
    command
        .args([
            "--exact",
            "peer::a_caller_that_another_test_starts",
            "--nocapture",
        ])
        .current_dir("/")
        .env(SOCKET, socket)
        .uid(uid);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

// req: KUBELET-13
#[tokio::test]
async fn the_connection_of_another_user_is_closed_even_if_the_files_mode_allows_it() {
    if !geteuid().is_root() {
        println!("not run: only root can start a process of another user");
        return;
    }
    let running = start(Script::instant(), Claims::default());
    let open = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode));
    let sockets = [
        running.registration_socket(),
        crate::support::files(&running.data()).remove(0),
    ];
    open(running.root.path(), 0o755).unwrap();
    for socket in &sockets {
        open(socket, 0o666).unwrap();
        let own = seen_by(0, socket).await;
        assert!(own.contains("read 9"), "{own}");
        let other = seen_by(NOBODY, socket).await;
        assert!(other.contains("read 0"), "{other}");
    }
}
