//! An implementation of NVML that does not use this workspace's bindings: `foreign.c`, built with the C compiler.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use nvml_clique::HealthSummary;

use crate::support::MockDriver;

fn foreign(flags: &[&str]) -> MockDriver {
    driver_of("foreign.c", flags)
}

/// A root with the library that is built from a C file of this directory with `flags`.
pub(crate) fn driver_of(source: &str, flags: &[&str]) -> MockDriver {
    let driver = MockDriver::without_library();
    let built = driver.root().join("built.so");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mock_nvml");
    // The compiler that also links what cargo builds, or one for another machine (hack/test-arch.sh).
    let compiler = env::var_os("IMEX_CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler)
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
        .arg(&built)
        .arg(sources.join(source))
        .args(flags)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    driver.install(&fs::read(built).unwrap());
    driver
}

#[test]
fn a_foreign_library_reports_the_same_clique_through_any_of_its_calls() {
    let healthy = (Some(0x1aa), Some(HealthSummary::Healthy));
    let table: [(&[&str], _); 9] = [
        (&[], healthy),
        (&["-DVERSION=2"], (Some(0x1aa), None)),
        (&["-DVERSION=2", "-DNO_V1"], (Some(0x1aa), None)),
        (&["-DVERSION=2", "-DSTRICT"], (Some(0x1aa), None)),
        (&["-DNO_V1"], healthy),
        (&["-DNO_V"], (None, None)),
        (&["-DVERSION=0"], (None, None)),
        (&["-DVERSION=0", "-DSTRICT"], (None, None)),
        (&["-DOLD", "-DNO_V"], (None, None)),
    ];
    for (flags, health) in table {
        let driver = foreign(flags);
        let fabric = driver.fabric();
        assert_eq!(
            fabric.to_string(),
            "clique c0ffee01-0203-0405-0607-08090a0b0c0d.42",
            "{flags:?}"
        );
        let gpu = driver.gpus().remove(0);
        assert_eq!(gpu.id.to_string(), "gpu 0 (GPU-foreign)");
        let reported = (
            gpu.health.map(|it| it.mask),
            gpu.health.and_then(|it| it.summary),
        );
        assert_eq!(reported, health, "{flags:?}");
    }
}

#[test]
fn a_foreign_library_without_a_known_version_has_its_own_code() {
    let driver = foreign(&["-DVERSION=0", "-DNO_V1"]);
    assert_eq!(
        driver.fabric().to_string(),
        "gpu 0 (GPU-foreign): unreadable: nvmlDeviceGetGpuFabricInfoV returned \
         NVML_ERROR_ARGUMENT_VERSION_MISMATCH (25) (1 of 1 GPUs without a final state)"
    );
    let driver = foreign(&["-DNO_V", "-DNO_V1"]);
    assert!(
        driver
            .fabric()
            .to_string()
            .contains("the library has no nvmlDeviceGetGpuFabricInfoV")
    );
}
