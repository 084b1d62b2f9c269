//! Changes GPUs with the driver's `nvidia-smi`: NVML has no call for the time slice.

use std::process::Output;
use std::time::Duration;

use dra_common::error_chain;
use gpu_api::TimeSlice;
use gpu_node::{Hardware, HardwareError};
use nvml_session::{DriverRoot, RootProgram, command};

/// How long one run may take. It opens the driver, which takes seconds without persistence mode.
const LIMIT: Duration = Duration::from_secs(15);

const MAX_OUTPUT: usize = 16 << 10;

/// The documented exit code for a setting that the GPU does not have.
const NOT_SUPPORTED: i32 = 3;

/// The `nvidia-smi` of the driver's root, run by that root's loader.
#[derive(Debug)]
pub(crate) struct NvidiaSmi {
    pub(crate) driver_root: DriverRoot,
}

impl Hardware for NvidiaSmi {
    // req: GPU-62
    fn set_time_slice(&self, gpu: &str, time_slice: TimeSlice) -> Result<(), HardwareError> {
        let program = RootProgram::find(&self.driver_root, "nvidia-smi");
        let program = program.map_err(|error| failed(error_chain(&error)))?;
        let number = TimeSlice::ALL.iter().position(|it| *it == time_slice);
        let number = number.unwrap_or_default().to_string();
        let args = ["compute-policy", "-i", gpu, "--set-timeslice", &number];
        let mut run = program.command();
        run.args(args);
        // One that outlives the plugin would change the GPU after a later process has.
        command::die_with_this_thread(&mut run);
        let output = command::run(run, LIMIT, MAX_OUTPUT);
        let named = |reason: &str| format!("nvidia-smi {}: {reason}", args.join(" "));
        let output = output.map_err(|error| failed(named(&error_chain(&error))))?;
        match output.status.code() {
            Some(0) => Ok(()),
            Some(NOT_SUPPORTED) => Err(HardwareError::NotSupported {
                reason: named(&text(&output)),
            }),
            _ => Err(failed(named(&format!(
                "{}, {}",
                output.status,
                text(&output)
            )))),
        }
    }
}

fn failed(reason: String) -> HardwareError {
    HardwareError::Failed { reason }
}

/// What it prints, in one line.
fn text(output: &Output) -> String {
    let printed = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    let words = printed.iter().flat_map(|it| it.split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A driver root whose `nvidia-smi` is this script.
    fn mk_root(script: &str) -> (tempfile::TempDir, NvidiaSmi) {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("usr/bin/nvidia-smi");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let driver_root = DriverRoot::new(root.path().to_owned());
        (root, NvidiaSmi { driver_root })
    }

    // req: GPU-62
    #[test]
    fn each_time_slice_has_the_number_that_the_program_knows() {
        let (root, smi) = mk_root("#!/bin/sh\necho \"$@\" >>\"${0%/usr/bin/*}/args\"\n");
        for time_slice in TimeSlice::ALL {
            smi.set_time_slice("GPU-1", time_slice).unwrap();
        }
        let args = fs::read_to_string(root.path().join("args")).unwrap();
        let expected = (0..4).map(|it| format!("compute-policy -i GPU-1 --set-timeslice {it}\n"));
        assert_eq!(args, expected.collect::<String>());
    }

    // req: GPU-62
    #[test]
    fn what_the_gpu_does_not_have_differs_from_what_fails() {
        let run = "nvidia-smi compute-policy -i GPU-1 --set-timeslice 3";
        let (_root, smi) = mk_root("#!/bin/sh\necho Not\necho Supported >&2\nexit 3\n");
        let not_supported = HardwareError::NotSupported {
            reason: format!("{run}: Not Supported"),
        };
        assert_eq!(
            smi.set_time_slice("GPU-1", TimeSlice::Long),
            Err(not_supported)
        );
        let (_root, smi) = mk_root("#!/bin/sh\necho No such GPU\nexit 6\n");
        let error = smi.set_time_slice("GPU-1", TimeSlice::Long).unwrap_err();
        let expected = format!("{run}: exit status: 6, No such GPU");
        assert_eq!(error, failed(expected));
        let empty = tempfile::tempdir().unwrap();
        let smi = NvidiaSmi {
            driver_root: DriverRoot::new(empty.path().to_owned()),
        };
        let error = smi.set_time_slice("GPU-1", TimeSlice::Long).unwrap_err();
        assert!(error.to_string().contains("nvidia-smi"), "{error}");
    }
}
