//! Times reading the GPUs of a mock host: `read-cost DIR`, with a directory that `mock-host` has made.
//!
//! The floor is the same calls in this process: what the library itself takes.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gpu_inventory::{Sources, read};
use nvml_session::{Device, DriverRoot, Nvml, NvmlProcess, SessionProgram};

const RUNS: usize = 100;
const DEADLINE: Duration = Duration::from_secs(10);

/// The median of [`RUNS`] runs, in milliseconds.
fn median(mut run: impl FnMut()) -> f64 {
    let time = |_| {
        let began = Instant::now();
        run();
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..RUNS).map(time).collect();
    times.sort();
    times
        .get(RUNS / 2)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
}

/// All calls that an inventory makes on one GPU. Failures cost the same.
fn call_all(gpu: &Device<'_>) {
    let _ = (gpu.pci_address(), gpu.uuid(), gpu.minor(), gpu.name());
    let _ = (gpu.brand(), gpu.architecture(), gpu.compute_capability());
    let _ = (gpu.memory(), gpu.addressing_mode(), gpu.module_id());
    let _ = (gpu.virtualization_mode(), gpu.persistence_mode());
    let _ = (gpu.compute_mode(), gpu.recovery_action());
    if let Ok((enabled, _)) = gpu.mig_mode() {
        let _: Vec<_> = (0..18)
            .map(|index| gpu.gpu_instance_profile(index))
            .collect();
        let devices = if enabled {
            gpu.max_mig_devices().unwrap_or(0)
        } else {
            0
        };
        let _: Vec<_> = (0..devices).map(|index| gpu.mig_device(index)).collect();
    }
}

fn read_here(root: &DriverRoot) {
    let Ok(session) = Nvml::new(root.clone()).open() else {
        return;
    };
    for index in 0..session.device_count().unwrap_or(0) {
        // Each query of a process gets its handle anew.
        let _: Vec<_> = (0..32).map(|_| session.device(index)).collect();
        if let Ok(gpu) = session.device(index) {
            call_all(&gpu);
        }
    }
    let _ = (session.driver_version(), session.cuda_version());
}

fn main() -> ExitCode {
    if let Some(code) = nvml_session::serve_if_started() {
        return code;
    }
    let Some(dir) = env::args().nth(1) else {
        eprintln!("usage: read-cost DIR");
        return ExitCode::from(2);
    };
    let root = DriverRoot::new(&dir);
    let dir = Path::new(&dir);
    let sources = Sources {
        proc: dir.join("proc"),
        sys: dir.join("sys"),
        ..Sources::this_host(root.clone())
    };
    let program = SessionProgram::this(DEADLINE);
    let process = median(|| drop(NvmlProcess::open(&program, &root)));
    let session = median(|| drop(Nvml::new(root.clone()).open()));
    let here = median(|| read_here(&root));
    let all = median(|| drop(read(&sources)));
    println!("GPUs                       {}", read(&sources).gpus.len());
    println!("session in this process    {session:.2} ms");
    println!("session in a process       {process:.2} ms");
    println!("same calls in this process {here:.2} ms");
    println!("inventory                  {all:.2} ms");
    println!("inventory, above the calls {:.2} ms", all - here);
    ExitCode::SUCCESS
}
