//! Replays the inputs that a fuzzer found interesting, as a fast test.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test ends where its expectation fails, and shows the input then"
)]

use std::path::Path;

fn replay(target: &str, check: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../corpus")
        .join(target);
    let mut replayed = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check(&std::fs::read(path).unwrap());
        replayed += 1;
    }
    assert!(
        replayed > 10,
        "only {replayed} inputs; the corpus is incomplete"
    );
}

#[test]
fn every_checkpoint_of_the_corpus_keeps_its_promises() {
    replay("checkpoint", fuzz_checks::checkpoint);
}

#[test]
fn every_device_list_of_the_corpus_keeps_its_promises() {
    replay("device_list", fuzz_checks::device_list);
}

#[test]
fn every_driver_file_of_the_corpus_keeps_its_promises() {
    replay("driver_files", fuzz_checks::driver_files);
}

#[test]
fn every_cache_of_a_loader_of_the_corpus_keeps_its_promises() {
    replay("ld_cache", fuzz_checks::ld_cache);
}

#[test]
fn every_cdi_spec_of_the_corpus_keeps_its_promises() {
    replay("spec", fuzz_checks::spec);
}

#[test]
fn every_oci_config_of_the_corpus_keeps_its_promises() {
    replay("config", fuzz_checks::config);
}
