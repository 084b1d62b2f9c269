//! The library's file, and the states of GPUs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::Table;
use crate::support::{
    MockDriver, OTHER_RACK, RACK, device, devices, fabric, library, member, rack,
};

pub(super) fn files(table: &mut Table) {
    table.section("The library's file");
    let driver = MockDriver::without_library();
    let file = driver.root().join("usr/lib64/libnvidia-ml.so.1");
    let whole = fs::read(library()).unwrap();
    let mut foreign = whole.clone();
    foreign[18..20].copy_from_slice(&21_u16.to_le_bytes());
    driver.configure(&rack());

    let nowhere = PathBuf::from("/nonexistent/driver");
    table.row("no such root", &nowhere, &fabric(&nowhere));
    table.driver("no file", &driver);
    symlink("libnvidia-ml.so.580", &file).unwrap();
    table.driver("a link to nothing", &driver);
    fs::remove_file(&file).unwrap();
    symlink("libnvidia-ml.so.1", &file).unwrap();
    table.driver("a link to itself", &driver);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    table.driver("a directory", &driver);
    fs::remove_dir(&file).unwrap();
    mkfifo(&file, Mode::S_IRUSR).unwrap();
    table.driver("a FIFO", &driver);
    fs::remove_file(&file).unwrap();
    let versioned = driver.root().join("usr/lib64/libnvidia-ml.so.580.82.07");
    fs::write(&versioned, &whole).unwrap();
    table.driver("only libnvidia-ml.so.580.82.07", &driver);
    fs::remove_file(&versioned).unwrap();
    for (what, bytes) in [
        ("an empty file", &[][..]),
        (
            "a script",
            b"#!/bin/sh\nexit 0\n# which is long enough to have the header of a library",
        ),
        ("a library of another architecture", &foreign),
        ("a library that ends after its first page", &whole[..4096]),
        ("a whole library", &whole),
    ] {
        driver.install(bytes);
        let fabric = driver.fabric();
        let reason = fabric.to_string().replace(&whole.len().to_string(), "ALL");
        // The mock's length differs between builds.
        let reason = match reason.split_once(" of at least ") {
            Some((before, _)) if bytes.len() == 4096 => format!("{before} of at least ALL bytes"),
            _ => reason,
        };
        let reason = reason.replace(driver.root().to_str().unwrap(), "ROOT");
        table.raw_row(what, fabric.code(), &reason);
    }
}

pub(super) fn states(table: &mut Table) {
    table.section("States of GPUs");
    let zero = device(0, r#""state": "completed", "clique_id": 7"#);
    let gpu = |index, state: &str| device(index, &format!(r#""state": {state}"#));
    let pcie = |index| format!(r#"{{"name": "NVIDIA L4", "uuid": "GPU-{index}"}}"#);
    let display = |name| format!(r#"{{"name": "{name}", "uuid": "GPU-9"}}"#);
    let failed = |index, status| {
        device(
            index,
            &format!(
                r#""state": "completed", "status": {status}, "cluster_uuid": "{RACK}", "clique_id": 5"#
            ),
        )
    };
    let in_clique = || member(0, RACK, 5);
    let rows: Vec<(&str, Vec<String>)> = vec![
        ("no GPU", vec![]),
        ("completed, clique 5", vec![in_clique()]),
        ("completed, clique 0", vec![member(0, RACK, 0)]),
        (
            "completed, clique 4294967295",
            vec![member(0, RACK, u32::MAX)],
        ),
        ("completed, cluster UUID all zero", vec![zero]),
        ("completed, status 999", vec![failed(0, 999)]),
        ("completed, status 4294967295", vec![failed(0, u32::MAX)]),
        ("state 0, not supported", vec![gpu(0, r#""not-supported""#)]),
        ("state 1, not started", vec![gpu(0, r#""not-started""#)]),
        ("state 2, in progress", vec![gpu(0, r#""in-progress""#)]),
        ("state 4", vec![gpu(0, "4")]),
        ("state 255", vec![gpu(0, "255")]),
        ("NVML_ERROR_NOT_SUPPORTED", vec![pcie(0)]),
        ("only a display adapter", vec![display("DGX Display")]),
        (
            "a display adapter beside a GPU",
            vec![display("NVIDIA DGX Display"), member(1, RACK, 5)],
        ),
        (
            "a name that is nearly a display adapter's",
            vec![display("DGX Display 2")],
        ),
        ("two of one clique", vec![in_clique(), member(1, RACK, 5)]),
        (
            "two cliques of one fabric",
            vec![in_clique(), member(1, RACK, 6)],
        ),
        (
            "one clique id in two fabrics",
            vec![in_clique(), member(1, OTHER_RACK, 5)],
        ),
        (
            "one in a clique, one without support",
            vec![in_clique(), pcie(1)],
        ),
        (
            "one in a clique, one of all-zero UUID",
            vec![in_clique(), device(1, r#""state": "completed""#)],
        ),
        (
            "one in a clique, one in progress",
            vec![in_clique(), gpu(1, "2")],
        ),
        (
            "one in a clique, one failed",
            vec![in_clique(), failed(1, 18)],
        ),
        (
            "in progress, not started, failed",
            vec![gpu(0, "2"), gpu(1, "1"), failed(2, 999)],
        ),
        (
            "two that disagree, one in progress",
            vec![in_clique(), member(1, RACK, 6), gpu(2, "2")],
        ),
    ];
    let driver = MockDriver::new(&rack());
    for (what, gpus) in rows {
        driver.configure(&devices(&gpus, ""));
        table.driver(what, &driver);
    }
}

pub(super) fn health(table: &mut Table) {
    table.section("Health of a GPU in its clique (info v3)");
    let driver = MockDriver::new(&rack());
    let bits = (0..32).map(|bit| 0x1aa ^ (1 << bit));
    let masks = [0, 0x1aa, u32::MAX].into_iter().chain(bits);
    let configurations = (0..16).map(|it| it << 8 | 0xaa);
    let rows = masks.chain(configurations).map(|mask| (mask, 1));
    for (mask, summary) in rows.chain([0, 2, 3, 4, 255].map(|summary| (0x1aa, summary))) {
        let fields = format!(
            r#""state": "completed", "cluster_uuid": "{RACK}", "clique_id": 5,
               "health_mask": {mask}, "health_summary": {summary}"#
        );
        driver.configure(&devices(&[device(0, &fields)], ""));
        let health = driver.gpus()[0].health.unwrap();
        let what = format!("mask {mask:#x}, summary {summary}");
        table.raw_row(&what, driver.fabric().code(), &health.to_string());
    }
}
