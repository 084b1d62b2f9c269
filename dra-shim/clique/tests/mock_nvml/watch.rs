//! A watch during changes and hangs of the driver.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nvml_clique::{FabricWatch, Reading, WatchConfig};

use crate::support::{MockDriver, RACK, device, devices, member, rack};

pub(crate) const GIVE_UP: Duration = Duration::from_secs(60);

pub(crate) fn watch(driver: &MockDriver) -> (FabricWatch, Receiver<Reading>) {
    let (to, changes) = channel();
    let config = WatchConfig::default()
        .pending_pause(Duration::from_millis(10))
        .final_pause(Duration::from_millis(10))
        .hung_after(Duration::from_millis(500));
    let watch = FabricWatch::spawn(driver.probe(), config, move |reading| {
        // The test may have ended.
        let _ = to.send(reading.clone());
    });
    (watch.unwrap(), changes)
}

/// The next change to `code`. A slow machine may see a hang in between.
pub(crate) fn await_code(changes: &Receiver<Reading>, code: &str) -> Reading {
    loop {
        let reading = changes.recv_timeout(GIVE_UP).unwrap();
        if reading.fabric.code() == code {
            return reading;
        }
    }
}

#[test]
fn a_library_that_appears_later_vanishes_and_returns_is_followed_without_a_restart() {
    let driver = MockDriver::without_library();
    let (watch, changes) = watch(&driver);
    await_code(&changes, "nvml-missing");

    driver.configure(&rack());
    driver.install_library();
    await_code(&changes, "clique");

    driver.configure(&devices(&[device(0, r#""state": "in-progress""#)], ""));
    await_code(&changes, "fabric-in-progress");

    driver.remove_library();
    let lost = await_code(&changes, "nvml-missing");
    assert!(lost.gpus.is_some(), "lost since start, not absent from it");

    driver.configure(&rack());
    driver.install_library();
    await_code(&changes, "clique");
    assert_eq!(watch.latest().fabric.code(), "clique");
}

#[test]
fn a_hang_in_any_call_is_reported_and_ends_when_the_call_does() {
    let calls = [
        "nvmlInitWithFlags",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlShutdown",
    ];
    let driver = MockDriver::new(&rack());
    let (watch, changes) = watch(&driver);
    for call in calls {
        await_code(&changes, "clique");
        let rest = format!(r#", "hang": ["{call}"]"#);
        driver.configure(&devices(&[member(0, RACK, 5)], &rest));
        let hung = await_code(&changes, "nvml-no-answer");
        assert!(hung.gpus.is_some(), "{call}");
        assert_eq!(watch.latest().fabric.code(), "nvml-no-answer", "{call}");
        driver.configure(&rack());
    }
    await_code(&changes, "clique");
}
