//! Prints the driver library, GPUs and clique of this host:
//! `cargo run -p nvml-clique --example clique [ROOT]`.

#![expect(clippy::print_stdout, reason = "the purpose of the program")]

use nvml_clique::{DriverRoot, Fabric, FabricProbe, NvmlProbe};

fn main() {
    let root = DriverRoot::new(std::env::args_os().nth(1).unwrap_or_else(|| "/".into()));
    match root.find_library() {
        Ok(file) => println!("library: {}", file.display()),
        Err(not_found) => {
            for rejected in &not_found.rejected {
                println!("library: {rejected}");
            }
        }
    }
    let fabric = match NvmlProbe::new(root).read() {
        Ok(gpus) => {
            for gpu in &gpus {
                let name = gpu.name.as_deref().unwrap_or("no name");
                println!("{}, {name}: {}", gpu.id, gpu.fabric);
                if let Some(health) = gpu.health {
                    println!("{}: {health}", gpu.id);
                }
            }
            Fabric::from_gpus(&gpus)
        }
        Err(error) => error.into(),
    };
    println!("{}: {fabric}", fabric.code());
    if !fabric.hint().is_empty() {
        println!("hint: {}", fabric.hint());
    }
}
