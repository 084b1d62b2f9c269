//! Calls that are missing, fail, or return false success.

use nvml_clique::NvmlCode;

use super::{CALLS, Table};
use crate::support::{MockDriver, RACK, devices, member, rack};

/// Every function that the mock exports.
const SYMBOLS: [&str; 12] = [
    "nvmlInitWithFlags",
    "nvmlInit_v2",
    "nvmlInit",
    "nvmlShutdown",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetGpuFabricInfo",
];

pub(super) fn versions(table: &mut Table) {
    table.section("The newest info that the driver accepts");
    for newest in [4, 3, 2, 1, 0] {
        let config = devices(
            &[member(0, RACK, 5)],
            &format!(r#", "fabric_info_version": {newest}"#),
        );
        let driver = MockDriver::new(&config);
        table.driver(&format!("v{newest}"), &driver);
        let driver = MockDriver::lacking(&["nvmlDeviceGetGpuFabricInfo"], &config);
        table.driver(&format!("v{newest}, and no unversioned call"), &driver);
    }
}

pub(super) fn missing_symbols(table: &mut Table) {
    table.section("Missing functions");
    for symbol in SYMBOLS {
        table.driver(symbol, &MockDriver::lacking(&[symbol], &rack()));
    }
    for symbols in [
        &["nvmlInitWithFlags", "nvmlInit_v2"][..],
        &["nvmlInitWithFlags", "nvmlInit_v2", "nvmlInit"],
        &["nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"],
        &["nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex"],
        &[
            "nvmlDeviceGetHandleByIndex_v2",
            "nvmlDeviceGetHandleByIndex",
        ],
        &["nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"],
        &SYMBOLS,
    ] {
        let what = if symbols.len() == SYMBOLS.len() {
            "everything".to_owned()
        } else {
            symbols.join(", ")
        };
        table.driver(&what, &MockDriver::lacking(symbols, &rack()));
    }
}

pub(super) fn misbehaviour(table: &mut Table) {
    table.section("False success");
    let gpus = [member(0, RACK, 5), member(1, RACK, 5)];
    let ways = ["writes-nothing", "garbage", "overrun"];
    let of_text = ["unterminated", "not-utf8", "line-break"];
    // Calls that write: all except those that begin a session.
    for (call, lacking) in CALLS.iter().skip(3) {
        let is_text = matches!(*call, "nvmlDeviceGetName" | "nvmlDeviceGetUUID");
        let more = if is_text { &of_text[..] } else { &[] };
        let is_versioned = call.ends_with('V');
        let version: &[_] = if is_versioned {
            &["ignores-version"]
        } else {
            &[]
        };
        let driver = MockDriver::lacking(lacking, &rack());
        for how in ways.iter().chain(more).chain(version) {
            driver.configure(&devices(
                &gpus,
                &format!(r#", "misbehaves": {{"{call}": "{how}"}}"#),
            ));
            table.driver(&format!("{call}: {how}"), &driver);
        }
    }
    let driver = MockDriver::new(&rack());
    for count in [0_u32, 3, 1024, 1025, 0x8000_0000, u32::MAX - 1, u32::MAX] {
        driver.configure(&devices(&gpus, &format!(r#", "device_count": {count}"#)));
        table.driver(&format!("{count} devices counted, 2 there"), &driver);
    }
}

pub(super) fn error_codes(table: &mut Table) {
    let codes = || (1..=31).chain([777, 999, u32::MAX]);
    for (call, lacking) in CALLS.into_iter().chain([("nvmlShutdown", &[][..])]) {
        table.section(&format!("Every error of {call}"));
        let driver = MockDriver::lacking(lacking, &rack());
        for code in codes() {
            let gpus = [member(0, RACK, 5), member(1, RACK, 5)];
            driver.configure(&devices(
                &gpus,
                &format!(r#", "errors": {{"{call}": {code}}}"#),
            ));
            let fabric = driver.fabric();
            table.row(&code.to_string(), driver.root(), &fabric);
            let named = fabric
                .to_string()
                .contains(&format!("{call} returned {}", NvmlCode(code)));
            let expected = match (call, code) {
                // The version is unknown, not the GPU: the next older version is tried.
                ("nvmlDeviceGetGpuFabricInfoV", 2 | 3 | 13 | 25) | ("nvmlShutdown", _) => {
                    fabric.code() == "clique"
                }
                ("nvmlDeviceGetGpuFabricInfo", 3) => fabric.code() == "fabric-not-supported",
                _ => named && fabric.clique().is_none(),
            };
            assert!(expected, "{call} {code}: {fabric}");
        }
    }
}
