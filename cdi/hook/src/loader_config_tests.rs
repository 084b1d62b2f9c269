use std::fs;

use tempfile::TempDir;

use super::*;

fn image(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn add(image: &TempDir, folders: &[&str]) -> Vec<String> {
    let folders: Vec<String> = folders.iter().map(ToString::to_string).collect();
    add_folders(&Root::open(image.path()).unwrap(), &folders).unwrap()
}

fn read(image: &TempDir, path: &str) -> Option<String> {
    fs::read_to_string(image.path().join(path.trim_start_matches('/'))).ok()
}

#[test]
fn an_empty_image_gets_a_configuration() {
    let image = image(&[]);
    assert!(add(&image, &["/driver/lib", "/usr/lib64/"]).is_empty());
    assert_eq!(
        read(&image, MAIN).unwrap(),
        "include /etc/ld.so.conf.d/*.conf\n"
    );
    assert_eq!(read(&image, OWN).unwrap(), "/driver/lib\n");
    let system = read(&image, SYSTEM).unwrap();
    assert!(system.starts_with("/lib\n/usr/lib\n/lib64\n/usr/lib64\n"));
}

#[test]
fn folders_that_the_image_has_keep_their_place() {
    let image = image(&[
        (
            MAIN.trim_start_matches('/'),
            "# comment\n/a # why\ninclude ld.so.conf.d/*.conf\n/b\n",
        ),
        (
            "etc/ld.so.conf.d/x.conf",
            "/c/\ninclude /etc/more /etc/ld.so.conf\n",
        ),
        ("etc/ld.so.conf.d/x.not", "/d"),
        ("etc/more", "/e\n"),
        ("etc/debian_version", "12.1"),
    ]);
    let unreached = add(&image, &["/a", "/b", "/c", "/d", "/e", "/usr/lib64"]);
    assert!(unreached.is_empty(), "{unreached:?}");
    assert_eq!(read(&image, OWN).unwrap(), "/d\n/usr/lib64\n");
    assert!(
        read(&image, SYSTEM)
            .unwrap()
            .ends_with("-linux-gnu\n/lib\n/usr/lib\n")
    );
}

#[test]
fn a_second_hook_adds_its_folders_and_a_second_start_none() {
    let image = image(&[]);
    add(&image, &["/a"]);
    add(&image, &["/b", "/a"]);
    add(&image, &["/a", "/b"]);
    assert_eq!(read(&image, OWN).unwrap(), "/a\n/b\n");
}

#[test]
fn without_the_include_folders_are_arguments() {
    let image = image(&[(MAIN.trim_start_matches('/'), "/a\n")]);
    assert_eq!(add(&image, &["/a", "/lib", "/driver"]), ["/driver"]);
    assert_eq!(add(&image, &["/driver"]), ["/driver"]);
    assert_eq!(read(&image, OWN).unwrap(), "/driver\n");
    assert_eq!(read(&image, MAIN).unwrap(), "/a\n");
}

#[test]
fn a_configuration_that_includes_itself_ends() {
    let image = image(&[(
        MAIN.trim_start_matches('/'),
        "include /etc/*\ninclude\t/etc/ld.so.con?\n",
    )]);
    assert_eq!(add(&image, &["/driver"]), ["/driver"]);
}

#[test]
fn patterns_match_as_in_a_shell() {
    for (pattern, name, expected) in [
        ("*.conf", "a.conf", true),
        ("*.conf", ".conf", true),
        ("*.conf", "a.conf.bak", false),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("?", "", false),
        ("??", "ab", true),
        ("", "", true),
        ("*", "", true),
    ] {
        assert_eq!(
            matches(pattern.as_bytes(), name.as_bytes()),
            expected,
            "{pattern} {name}"
        );
    }
    let pattern = "*a".repeat(1000) + "b";
    assert!(!matches(pattern.as_bytes(), "a".repeat(2000).as_bytes()));
}
