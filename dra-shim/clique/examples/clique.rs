//! Says what this host's GPUs say: `cargo run -p nvml-clique --example clique [ROOT]`.

#![expect(clippy::print_stdout, reason = "it is what the program is for")]

use nvml_clique::{DriverRoot, Fabric, FabricProbe, NvmlProbe};

fn main() {
    let root = DriverRoot::new(std::env::args_os().nth(1).unwrap_or_else(|| "/".into()));
    match root.library() {
        Ok(file) => println!("library: {}", file.display()),
        Err(missing) => {
            for candidate in &missing.rejected {
                println!("library: {candidate}");
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
            Fabric::of(&gpus)
        }
        Err(error) => error.into(),
    };
    println!("{}: {fabric}", fabric.code());
    if !fabric.hint().is_empty() {
        println!("hint: {}", fabric.hint());
    }
}
