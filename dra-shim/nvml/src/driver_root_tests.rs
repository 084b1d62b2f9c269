use std::fs;
use std::os::unix::fs::symlink;

use super::*;

const WITHIN: &str = " or its subdirectories run/nvidia/driver and home/kubernetes/bin/nvidia";

fn put(root: &Path, file: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, elf::tests::minimal_library()).unwrap();
}

#[test]
fn the_root_itself_comes_first_and_then_the_usual_directories_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let root = DriverRoot::new(dir.path());
    for place in LIBRARY_DIRS.iter().rev().chain(&[""]) {
        let file = Path::new(place).join(LIBRARY);
        put(dir.path(), file.to_str().unwrap());
        assert_eq!(root.find_library(), Ok(dir.path().join(file)));
    }
}

#[test]
fn a_stray_directory_does_not_shadow_the_library() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("usr/lib64").join(LIBRARY)).unwrap();
    put(dir.path(), "lib64/libnvidia-ml.so.1");
    assert_eq!(
        DriverRoot::new(dir.path()).find_library(),
        Ok(dir.path().join("lib64/libnvidia-ml.so.1"))
    );
}

#[test]
fn the_error_lists_every_path_and_displays_the_existing_ones() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("usr/lib64").join(LIBRARY)).unwrap();
    let error = DriverRoot::new(dir.path()).find_library().unwrap_err();
    let reasons: Vec<_> = error.rejected.iter().map(|path| &path.reason).collect();
    assert_eq!(reasons.len(), 1 + LIBRARY_DIRS.len());
    assert_eq!(reasons[1], &RejectReason::NotAFile);
    assert_eq!(
        reasons
            .iter()
            .filter(|reason| ***reason == RejectReason::Missing)
            .count(),
        LIBRARY_DIRS.len()
    );
    assert_eq!(
        error.to_string(),
        format!(
            "libnvidia-ml.so.1 was not found in the 15 usual places below {root}{WITHIN}; \
             {root}/usr/lib64/libnvidia-ml.so.1 is not a regular file",
            root = dir.path().display()
        )
    );
}

#[test]
fn a_missing_root_is_the_reason() {
    let error = DriverRoot::new("/nonexistent/driver")
        .find_tool("nvidia-imex-ctl")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "no nvidia-imex-ctl: the root /nonexistent/driver does not exist"
    );
}

#[test]
fn a_usr_merged_host_without_a_driver_gets_one_short_sentence() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("usr/lib/x86_64-linux-gnu")).unwrap();
    fs::create_dir_all(dir.path().join("usr/lib64")).unwrap();
    for merged in ["lib", "lib64"] {
        symlink(Path::new("usr").join(merged), dir.path().join(merged)).unwrap();
    }
    let error = DriverRoot::new(dir.path()).find_library().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "libnvidia-ml.so.1 was not found in the 15 usual places below {}{WITHIN}",
            dir.path().display()
        )
    );
}

#[test]
fn names_and_links_with_control_characters_stay_on_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let lib64 = dir.path().join("usr/lib64");
    fs::create_dir_all(&lib64).unwrap();
    symlink("/gone\n\u{1b}[31m", lib64.join(LIBRARY)).unwrap();
    put(dir.path(), "lib64/libnvidia-ml.so.580\nclique");
    let error = DriverRoot::new(dir.path()).find_library().unwrap_err();
    let message = error.to_string();
    assert!(!message.contains(char::is_control), "{message:?}");
    assert!(message.contains("/gone\\n"), "{message}");
    assert!(message.contains("580\\nclique is in the same"), "{message}");
    let error = DriverRoot::new("/no\nroot").find_library().unwrap_err();
    assert!(error.to_string().ends_with("/no\\nroot does not exist"));
}

#[test]
fn an_unloadable_library_does_not_shadow_a_loadable_one() {
    let dir = tempfile::tempdir().unwrap();
    let rejected = dir.path().join("usr/lib64").join(LIBRARY);
    put(dir.path(), "lib64/libnvidia-ml.so.1");
    fs::create_dir_all(rejected.parent().unwrap()).unwrap();
    for bytes in [&b"\x7fELF\x01\x01"[..], b"", b"a text"] {
        fs::write(&rejected, bytes).unwrap();
        assert_eq!(
            DriverRoot::new(dir.path()).find_library(),
            Ok(dir.path().join("lib64/libnvidia-ml.so.1"))
        );
    }
}

#[test]
fn every_kind_of_rejected_path_has_its_own_reason() {
    let dir = tempfile::tempdir().unwrap();
    let at = |place: &str| dir.path().join(place).join(LIBRARY);
    for place in LIBRARY_DIRS {
        fs::create_dir_all(dir.path().join(place)).unwrap();
    }
    symlink(LIBRARY, at("")).unwrap();
    symlink("gone.so", at("usr/lib64")).unwrap();
    fs::create_dir(at("usr/lib/x86_64-linux-gnu")).unwrap();
    fs::write(at("usr/lib/aarch64-linux-gnu"), [b'x'; 100]).unwrap();
    fs::write(at("lib64"), "").unwrap();
    let mut foreign = elf::tests::minimal_library();
    foreign[18] = 21;
    fs::write(at("lib/x86_64-linux-gnu"), foreign).unwrap();
    let error = DriverRoot::new(dir.path()).find_library().unwrap_err();
    let messages: Vec<_> = error
        .rejected
        .iter()
        .map(|path| path.reason.to_string())
        .collect();
    assert_eq!(
        messages[..7],
        [
            "is a symbolic link loop",
            "is a broken link: /usr/lib64/gone.so does not exist",
            "is not a regular file",
            "is not a shared library",
            "is truncated: 0 of at least 64 bytes",
            "is for another architecture (machine 21, 64 bit)",
            "does not exist",
        ]
    );
    assert!(
        messages[7..].iter().all(|it| it == "does not exist"),
        "{messages:?}"
    );
}

#[test]
fn an_unreadable_path_is_reported() {
    // A path component that is a file: the only error that root gets, too.
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("usr")).unwrap();
    fs::write(dir.path().join("usr/lib64"), "").unwrap();
    let error = DriverRoot::new(dir.path()).find_library().unwrap_err();
    let message = error.rejected[1].reason.to_string();
    assert_eq!(message, "cannot be read (not a directory)");
}

#[test]
fn a_driver_root_within_the_host_root_is_searched_after_it_with_its_own_links() {
    for nested in NESTED_ROOTS {
        let dir = tempfile::tempdir().unwrap();
        let host = DriverRoot::new(dir.path());
        let own = DriverRoot::new(dir.path().join(nested));
        assert!(host.find_library().is_err() && own.find_library().is_err());
        put(own.path(), "usr/lib64/libnvidia-ml.so.580");
        let link = own.path().join("usr/lib64").join(LIBRARY);
        symlink("/usr/lib64/libnvidia-ml.so.580", link).unwrap();
        let found = own.path().join("usr/lib64/libnvidia-ml.so.580");
        assert_eq!(own.find_library(), Ok(found.clone()));
        assert_eq!(host.find_library(), Ok(found));
        let roots: Vec<_> = host.with_nested().collect();
        assert_eq!(roots, [host.clone(), own.clone()]);
        assert_eq!(host.with_library(), own);

        put(dir.path(), "lib64/libnvidia-ml.so.1");
        let on_host = dir.path().join("lib64/libnvidia-ml.so.1");
        assert_eq!(host.find_library(), Ok(on_host));
        assert_eq!(host.with_library(), host);
    }
}

#[test]
fn a_problem_in_a_nested_root_is_reported_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let nested = dir.path().join("run/nvidia/driver");
    put(&nested, "usr/lib64/libnvidia-ml.so.580");
    // As for a link that only the host's root can follow.
    fs::create_dir_all(dir.path().join("home")).unwrap();
    symlink("/gone", dir.path().join("home/kubernetes")).unwrap();
    let error = DriverRoot::new(dir.path()).find_library().unwrap_err();
    assert_eq!(error.rejected.len(), 2 * (1 + LIBRARY_DIRS.len()));
    let message = error.to_string();
    let reason =
        "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1 does not exist, but libnvidia-ml.so.580";
    assert!(message.contains(reason), "{message}");
}

#[test]
fn a_library_without_its_link_is_reported_once_with_the_missing_path() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "usr/lib64/libnvidia-ml.so.570.1");
    put(dir.path(), "usr/lib64/libnvidia-ml.so.580.82.07");
    fs::write(dir.path().join("usr/lib64/libnvidia-ml.so.590"), "no").unwrap();
    put(dir.path(), "usr/lib64/libnvidia-ml.soup");
    symlink("usr/lib64", dir.path().join("lib64")).unwrap();
    let root = DriverRoot::new(dir.path());
    let error = root.find_library().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "libnvidia-ml.so.1 was not found in the 15 usual places below {root}{WITHIN}; \
             {root}/usr/lib64/libnvidia-ml.so.1 does not exist, \
             but libnvidia-ml.so.580.82.07 is in the same directory",
            root = dir.path().display()
        )
    );
    let missing = error
        .rejected
        .iter()
        .filter(|path| path.reason == RejectReason::Missing);
    assert_eq!(missing.count(), LIBRARY_DIRS.len());

    let link = dir.path().join("usr/lib64").join(LIBRARY);
    symlink("libnvidia-ml.so.580.82.07", link).unwrap();
    assert!(root.find_library().is_ok());
}

#[test]
fn an_existing_library_directory_is_listed_once_and_a_missing_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("usr/lib64")).unwrap();
    symlink("usr/lib64", dir.path().join("lib64")).unwrap();
    assert_eq!(
        DriverRoot::new(dir.path()).library_dirs(),
        [dir.path().join("usr/lib64")]
    );
}
