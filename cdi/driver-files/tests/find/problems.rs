use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use nvidia_driver_files::Problem;

use crate::support::elf;
use crate::support::{Root, VERSION};

fn texts(root: &Root) -> Vec<String> {
    root.find()
        .problems
        .iter()
        .map(Problem::to_string)
        .collect()
}

#[test]
fn an_empty_root_and_a_root_that_does_not_exist_lack_both_required_libraries() {
    let root = Root::new();
    let missing = [
        "libcuda.so.580.82.07 was not found in the driver root",
        "libnvidia-ml.so.580.82.07 was not found in the driver root",
    ];
    assert_eq!(texts(&root), missing);
    let root_path = root.path().to_owned();
    fs::remove_dir(root_path).unwrap();
    assert_eq!(texts(&root), missing);
    assert_eq!(root.find().files, []);
}

// req: GPU-7
#[test]
fn files_of_another_version_are_named_and_not_given() {
    let root = Root::new();
    root.driver("/usr/lib64");
    for name in [
        "libcuda.so.570.1.2",
        "libnvidia-ml.so.570.1.2",
        "libz.so.580.1.2",
    ] {
        root.library(&format!("/usr/lib64/{name}"), "x");
    }
    let files = root.find();
    assert_eq!(files.files.len(), 2);
    assert_eq!(files.problems.len(), 1);
    assert_eq!(files.problems[0].code(), "driver-version-mixed");
    assert_eq!(
        files.problems[0].to_string(),
        "/usr/lib64 has files of driver 570.1.2: libcuda.so.570.1.2, libnvidia-ml.so.570.1.2"
    );
}

#[test]
fn a_link_with_the_name_of_the_version_to_a_file_of_another_one_is_refused() {
    let root = Root::new();
    root.driver("/usr/lib64")
        .library("/usr/lib64/libnvidia-a.so.570.1.2", "libnvidia-a.so.1")
        .link(
            "/usr/lib64/libnvidia-a.so.580.82.07",
            "libnvidia-a.so.570.1.2",
        );
    let files = root.find();
    assert_eq!(files.files.len(), 2);
    assert_eq!(
        files.problems[1].to_string(),
        "/usr/lib64/libnvidia-a.so.580.82.07 leads to libnvidia-a.so.570.1.2, a file of another driver version"
    );
}

#[test]
fn a_broken_link_a_loop_a_directory_and_a_truncated_library_are_named_with_the_reason() {
    let root = Root::new();
    let whole = elf::library(elf::X86_64, Some("x"));
    root.driver("/usr/lib64")
        .link(
            &format!("/usr/lib64/libnvidia-a.so.{VERSION}"),
            "/nowhere/x",
        )
        .link(
            &format!("/usr/lib64/libnvidia-b.so.{VERSION}"),
            &format!("libnvidia-b.so.{VERSION}"),
        )
        .dir(&format!("/usr/lib64/libnvidia-c.so.{VERSION}"))
        .put(
            &format!("/usr/lib64/libnvidia-d.so.{VERSION}"),
            &whole[..200],
        )
        .put(
            &format!("/usr/lib64/libnvidia-e.so.{VERSION}"),
            &[b'#'; 100],
        );
    let expected = [
        ("a", "is a broken link: /nowhere does not exist".to_owned()),
        ("b", "is a symbolic link loop".to_owned()),
        ("c", "is not a regular file".to_owned()),
        (
            "d",
            format!("is truncated: 200 of at least {} bytes", whole.len()),
        ),
        ("e", "is not a shared library".to_owned()),
    ];
    let expected = expected
        .map(|(letter, reason)| format!("/usr/lib64/libnvidia-{letter}.so.580.82.07 {reason}"));
    assert_eq!(texts(&root), expected);
    assert_eq!(root.find().files.len(), 2);
}

// req: GPU-8
#[test]
fn a_link_never_leads_out_of_the_root() {
    let outside = Root::new();
    outside.driver("/");
    let root = Root::new();
    let target = outside.at(&format!("libcuda.so.{VERSION}"));
    root.link(
        &format!("/usr/lib64/libcuda.so.{VERSION}"),
        target.to_str().unwrap(),
    );
    let files = root.find();
    assert_eq!(files.files, []);
    assert!(
        files
            .problems
            .iter()
            .any(|it| it.code() == "driver-file-unusable")
    );
}

#[test]
fn names_that_arguments_cannot_carry_are_refused() {
    let root = Root::new();
    root.driver("/usr/lib64");
    for name in ["lib a", "lib::a", "lib\na", "lib\u{e9}", "-lib"] {
        root.library(&format!("/usr/lib64/{name}.so.{VERSION}"), "x");
    }
    let bytes = [b"lib\xff.so.".as_slice(), VERSION.as_bytes()].concat();
    fs::write(root.at("/usr/lib64").join(OsStr::from_bytes(&bytes)), "").unwrap();
    let files = root.find();
    assert_eq!(files.files.len(), 2);
    assert_eq!(files.problems.len(), 6);
    assert!(
        files
            .problems
            .iter()
            .all(|it| it.code() == "driver-path-odd")
    );
    assert!(
        !files
            .problems
            .iter()
            .any(|it| it.to_string().contains('\n'))
    );
}
