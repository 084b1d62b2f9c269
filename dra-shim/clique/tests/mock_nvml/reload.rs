//! A library that is replaced, partly copied, or held by other code.

#![expect(unsafe_code, reason = "the test itself holds a library")]

use std::fs;
use std::os::unix::fs::symlink;

use nvml_clique::{FabricProbe, NoLibrary, ProbeError};
use nvml_wrapper_sys::bindings::NvmlLib;

use crate::support::{MockDriver, library, rack};
use crate::watch::{await_code, watch};

const IN_ROOT: &str = "usr/lib64/libnvidia-ml.so.1";

#[test]
fn the_new_library_is_loaded_while_other_code_holds_the_old_one() {
    let driver = MockDriver::new(&rack());
    // SAFETY: the library is the workspace's mock, whose initialisers do nothing.
    let _held = unsafe { NvmlLib::new(driver.root().join(IN_ROOT)) }.unwrap();
    let (_watch, changes) = watch(&driver);
    await_code(&changes, "clique");
    for _ in 0..3 {
        let lacking = MockDriver::lacking(&["nvmlShutdown"], &rack());
        driver.install(&fs::read(lacking.root().join(IN_ROOT)).unwrap());
        await_code(&changes, "nvml-symbol-missing");
        driver.install_library();
        await_code(&changes, "clique");
    }
}

/// The length of an ELF file up to the end of its last segment that the loader maps.
fn mapped_len(library: &[u8]) -> usize {
    let number = |at: usize, len: usize| {
        let bytes = library[at..at + len].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let (headers, header_len, count) = (number(32, 8), number(54, 2), number(56, 2));
    let segments = (0..count).map(|index| headers + index * header_len);
    let loaded = segments.filter(|&at| number(at, 4) == 1);
    loaded
        .map(|at| number(at + 8, 8) + number(at + 32, 8))
        .max()
        .unwrap()
}

#[test]
fn a_library_that_is_still_being_copied_is_not_loaded_until_it_is_complete() {
    let driver = MockDriver::new(&rack());
    let whole = fs::read(library()).unwrap();
    let mapped = mapped_len(&whole);
    let probe = driver.probe();
    for part in 0..64 {
        driver.install(&whole[..whole.len() * part / 64]);
        match probe.read() {
            Err(ProbeError::NoLibrary(error)) => {
                assert_eq!(error.code(), "nvml-unloadable", "{part}/64");
                if matches!(error, NoLibrary::Missing(_)) {
                    assert!(
                        error.hint().contains("only partly installed"),
                        "{}",
                        error.hint()
                    );
                }
            }
            // Only debuggers read the rest of the file.
            answer => assert!(
                answer.is_ok() && whole.len() * part / 64 >= mapped,
                "{part}/64: {answer:?}"
            ),
        }
    }
    driver.install(&whole);
    assert_eq!(driver.fabric().code(), "clique");
}

#[test]
fn a_library_that_the_loader_rejects_is_reported_with_its_message() {
    let driver = MockDriver::without_library();
    let mut header = fs::read(library()).unwrap()[..64].to_vec();
    // No program headers, so nothing to map.
    header[56..58].fill(0);
    driver.install(&header);
    let fabric = driver.fabric();
    assert_eq!(fabric.code(), "nvml-unloadable");
    let file = driver.root().join(IN_ROOT);
    let begin = format!("{} cannot be loaded: ", file.display());
    let reason = fabric.to_string();
    assert!(
        reason.starts_with(&begin) && reason.len() > begin.len(),
        "{reason}"
    );
    assert!(fabric.hint().contains("ldd"), "{}", fabric.hint());
}

#[test]
fn a_driver_containers_absolute_links_lead_to_its_own_library() {
    let driver = MockDriver::new(&rack());
    let dir = driver.root().join("usr/lib64");
    fs::rename(
        driver.root().join(IN_ROOT),
        dir.join("libnvidia-ml.so.580.82.07"),
    )
    .unwrap();
    symlink(
        "/usr/lib64/libnvidia-ml.so.580.82.07",
        driver.root().join(IN_ROOT),
    )
    .unwrap();
    assert_eq!(driver.fabric().code(), "clique");
}
