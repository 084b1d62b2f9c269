//! How directories are handled.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use imex_cdi::{DirError, DirState, Registry};

use crate::host::Host;

/// `odd` between two good directories, whose devices it must not hide.
fn load(host: &Host, odd: PathBuf) -> Registry {
    host.spec("low/a.json", &["red"]);
    host.spec("high/b.json", &["green"]);
    let registry = Registry::load(&[host.path("low"), odd, host.path("high")]);
    assert_eq!(host.file_of(&registry, "red"), "low/a.json");
    assert_eq!(host.file_of(&registry, "green"), "high/b.json");
    let [low, odd, high] = registry.dirs() else {
        panic!("not three");
    };
    assert_eq!([low.priority, odd.priority, high.priority], [0, 1, 2]);
    registry
}

/// The odd directory's state.
fn state_of(registry: &Registry) -> &DirState {
    &registry.dirs()[1].state
}

#[test]
fn a_missing_directory_is_no_error() {
    let host = Host::new();
    let registry = load(&host, host.path("never/made"));
    let state = state_of(&registry);
    assert!(matches!(state, DirState::Absent), "{state:?}");
    let registry = load(&host, PathBuf::new());
    let state = state_of(&registry);
    assert!(
        matches!(state, DirState::Listed),
        "the current one: {state:?}"
    );
}

/// Go's library, at the first such directory, drops the later ones.
// req: CDI-15
#[test]
fn a_directory_that_cannot_be_listed_is_an_error_and_hides_no_other() {
    let host = Host::new();
    host.write("file", "");
    let registry = load(&host, host.path("file/cdi"));
    let state = state_of(&registry);
    let DirState::Skipped(error @ DirError::Unlistable { .. }) = state else {
        panic!("{state:?}");
    };
    assert_eq!(error.code(), "cdi-directory-unreadable");
}

#[test]
fn a_directory_that_is_a_link_is_not_read_even_with_a_final_slash() {
    let host = Host::new();
    host.spec("target/c.json", &["blue"]);
    symlink("target", host.path("link")).unwrap();
    for path in ["link", "link/", "link//."] {
        let registry = load(&host, host.path(path));
        let state = state_of(&registry);
        assert!(
            matches!(&state, DirState::Skipped(DirError::Link { path }) if *path == host.path("link")),
            "{state:?}"
        );
    }
}

#[test]
fn a_link_further_up_the_path_is_followed() {
    let host = Host::new();
    host.spec("run/cdi/c.json", &["blue"]);
    symlink("run", host.path("var-run")).unwrap();
    let registry = Registry::load(&[host.path("var-run/cdi")]);
    assert_eq!(host.file_of(&registry, "blue"), "var-run/cdi/c.json");
}

#[test]
fn a_file_in_place_of_a_directory_is_an_error_unless_it_is_a_spec() {
    let host = Host::new();
    host.spec("file", &["blue"]);
    let registry = load(&host, host.path("file"));
    let state = state_of(&registry);
    assert!(matches!(
        state,
        DirState::Skipped(DirError::NotADirectory { .. })
    ));

    host.spec("file.json", &["blue"]);
    let registry = Registry::load(&[host.path("file.json")]);
    assert_eq!(host.file_of(&registry, "blue"), "file.json");
}

#[test]
fn no_directories_make_an_empty_registry() {
    let registry = Registry::load::<&Path>(&[]);
    assert_eq!(registry.devices().count(), 0);
    assert!(registry.dirs().is_empty() && registry.files().is_empty());
}
