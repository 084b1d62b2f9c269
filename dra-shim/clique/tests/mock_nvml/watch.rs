//! A watch during changes and hangs of the driver.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nvml_clique::{FabricWatch, Reading, WatchConfig};

use crate::support::{MockDriver, OTHER_RACK, RACK, device, devices, member, rack};

pub(crate) const GIVE_UP: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(10);

pub(crate) fn watch(driver: &MockDriver) -> (FabricWatch, Receiver<Reading>) {
    let (to, changes) = channel();
    let config = WatchConfig::default()
        .pending_pause(PAUSE, PAUSE)
        .final_pause(PAUSE, PAUSE)
        .hung_after(Duration::from_millis(500));
    let watch = FabricWatch::spawn(driver.probe(), config, move |reading| {
        // The test may have ended.
        let _ = to.send(reading.clone());
    });
    (watch.unwrap(), changes)
}

/// Waits for the next change to `code`. A slow machine may observe a hang in between.
pub(crate) fn await_code(changes: &Receiver<Reading>, code: &str) -> Reading {
    loop {
        let reading = changes.recv_timeout(GIVE_UP).unwrap();
        if reading.fabric.code() == code {
            return reading;
        }
    }
}

#[test]
fn a_watch_follows_a_library_that_appears_vanishes_and_returns() {
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
fn a_hang_in_any_call_is_reported_until_the_call_returns() {
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

/// Eight GPUs of one clique, except that GPU 3 is `third`.
fn eight(third: &str, rest: &str) -> String {
    let gpus: Vec<_> = (0..8)
        .map(|index| match index {
            3 => third.to_owned(),
            _ => member(index, RACK, 5),
        })
        .collect();
    devices(&gpus, rest)
}

#[test]
fn one_failed_gpu_of_eight_does_not_take_the_clique_from_the_others() {
    let well = eight(&member(3, RACK, 5), "");
    let lost = r#", "errors": {"nvmlDeviceGetHandleByIndex_v2@3": 15}"#;
    let no_answer = r#", "errors": {"nvmlDeviceGetGpuFabricInfoV@3": 10}"#;
    let failed = device(3, r#""state": "completed", "status": 999"#);
    let in_progress = device(3, r#""state": "in-progress""#);
    let seven: Vec<_> = (0..8)
        .filter(|index| *index != 3)
        .map(|index| member(index, RACK, 5))
        .collect();
    let ways = [
        (eight(&member(3, RACK, 5), lost), "NVML_ERROR_GPU_IS_LOST"),
        (eight(&member(3, RACK, 5), no_answer), "NVML_ERROR_TIMEOUT"),
        (eight(&failed, ""), "registration failed"),
        (eight(&in_progress, ""), "registration in progress"),
        (devices(&seven, ""), "no longer enumerated"),
    ];
    let driver = MockDriver::new(&well);
    let (_watch, changes) = watch(&driver);
    await_code(&changes, "clique");
    for (config, reason) in ways {
        driver.configure(&config);
        let text = await_code(&changes, "clique-incomplete").fabric.to_string();
        assert!(text.contains("without gpu 3 (GPU-3): "), "{text}");
        assert!(text.contains(reason), "{text}");
        driver.configure(&well);
        await_code(&changes, "clique");
    }
    driver.configure(&eight(&member(3, OTHER_RACK, 5), ""));
    await_code(&changes, "gpus-disagree");
}

#[test]
fn one_read_is_three_calls_and_four_for_each_gpu() {
    let driver = MockDriver::new(&eight(&member(3, RACK, 5), ""));
    let calls = driver.calls(|| assert_eq!(driver.gpus().len(), 8));
    assert_eq!(calls.len(), 3 + 4 * 8, "{calls:?}");
}
