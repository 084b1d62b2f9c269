//! Slow calls, and a driver that is installed and removed.

use std::fs;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Instant;

use nvml_clique::{Fabric, FabricWatch, Reading};

use super::{CALLS, Table};
use crate::support::{MockDriver, RACK, device, devices, library, member, rack};
use crate::watch::{GIVE_UP, await_code, watch};

pub(super) fn delays_and_hangs(table: &mut Table) {
    table.section("Slow calls and calls that never return");
    for (call, lacking) in CALLS.into_iter().chain([("nvmlShutdown", &[][..])]) {
        let driver = MockDriver::lacking(lacking, &rack());
        let gpus = [member(0, RACK, 5)];
        driver.configure(&devices(
            &gpus,
            &format!(r#", "delay_ms": {{"{call}": 20}}"#),
        ));
        table.driver(&format!("{call} takes 20 ms"), &driver);

        let (watch, changes) = watch(&driver);
        await_code(&changes, "clique");
        driver.configure(&devices(&gpus, &format!(r#", "hang": ["{call}"]"#)));
        await_code(&changes, "nvml-no-answer");
        let hung = await_hang_in(&watch, call);
        let reason = hung.to_string();
        let (before, after) = reason.split_once(" for ").unwrap();
        let (_, after) = after.split_once(" (").unwrap();
        table.raw_row(
            &format!("{call} hangs"),
            hung.code(),
            &format!("{before} for … ({after}"),
        );
        driver.configure(&rack());
        let back = await_code(&changes, "clique");
        table.row(
            &format!("{call} returns after all"),
            driver.root(),
            &back.fabric,
        );
    }
}

/// Waits for a hang in `expected`. A slow machine may observe a hang in an earlier call.
fn await_hang_in(watch: &FabricWatch, expected: &str) -> Fabric {
    let give_up = Instant::now() + GIVE_UP;
    loop {
        let fabric = watch.latest().fabric;
        if matches!(fabric, Fabric::NoAnswer { call: Some(call), .. } if call == expected) {
            return fabric;
        }
        assert!(Instant::now() < give_up, "{fabric}");
        thread::yield_now();
    }
}

pub(super) fn coming_and_going(table: &mut Table) {
    table.section("A driver that comes and goes, under one watch");
    let driver = MockDriver::without_library();
    let (_watch, changes) = watch(&driver);
    let expect = |table: &mut Table, case: &str, code: &str| {
        let reading = await_code(&changes, code);
        table.row(case, driver.root(), &reading.fabric);
    };
    let error = |call: &str, code: u32| {
        driver.configure(&devices(
            &[member(0, RACK, 5)],
            &format!(r#", "errors": {{"{call}": {code}}}"#),
        ));
    };
    expect(table, "not installed yet", "nvml-missing");
    driver.install_library();
    expect(table, "installed, module not loaded", "nvml-error");
    driver.configure(&devices(&[], ""));
    expect(table, "module loaded, no GPU probed", "no-gpus");
    driver.configure(&devices(&[device(0, r#""state": "not-started""#)], ""));
    expect(table, "fabric manager not there", "fabric-not-started");
    driver.configure(&devices(&[device(0, r#""state": "in-progress""#)], ""));
    expect(table, "registering", "fabric-in-progress");
    driver.configure(&rack());
    expect(table, "registered", "clique");
    error("nvmlDeviceGetUUID", 15);
    expect(table, "a GPU is lost", "gpu-unreadable");
    driver.configure(&rack());
    expect(table, "and reset", "clique");
    driver.configure(&devices(&[member(0, RACK, 6)], ""));
    await_other_clique(&changes);
    error("nvmlInitWithFlags", 18);
    expect(table, "library updated, module not", "nvml-error");
    driver.remove_library();
    expect(table, "driver container gone", "nvml-missing");
    driver.install(&fs::read(library()).unwrap()[..4096]);
    let half = await_code(&changes, "nvml-unloadable");
    table.raw_row("the next one half copied", half.fabric.code(), "…");
    driver.configure(&rack());
    driver.install_library();
    expect(table, "and whole", "clique");
}

/// The partition was moved: the same code, another clique.
fn await_other_clique(changes: &Receiver<Reading>) {
    while await_code(changes, "clique")
        .fabric
        .clique()
        .map(|it| it.id)
        != Some(6)
    {}
}
