//! Runs the program without privileges: root can read every file, so that the tests
//! have to become another user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The program, run without privileges; makes the directory `place` readable for others.
pub(crate) fn unprivileged(place: &Path) -> Command {
    let program = env!("CARGO_BIN_EXE_cdi-gen");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let probe = place.join("probe");
    fs::write(&probe, "").unwrap();
    set(&probe, 0o000);
    let is_unprivileged = fs::File::open(&probe).is_err();
    fs::remove_file(&probe).unwrap();
    if is_unprivileged {
        return Command::new(program);
    }
    // The build directory may be closed to other users, so copy the program. Another process copies
    // it: a file that this process holds open for writing while another test forks cannot be
    // executed (ETXTBSY).
    let copied = place.join("cdi-gen");
    let copy = Command::new("cp").arg(program).arg(&copied).status();
    assert!(copy.unwrap().success());
    for open in [place, &copied] {
        set(open, 0o755);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(copied);
    command
}
