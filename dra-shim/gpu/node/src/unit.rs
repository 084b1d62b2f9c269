//! The hardware that a claim holds.

use std::fmt;

/// A piece of hardware that only one claim may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// A full GPU.
    Gpu {
        /// Its UUID.
        uuid: String,
    },
    /// A GPU instance, with the MIG device in it.
    Mig {
        /// The UUID of the GPU.
        gpu: String,
        /// The id of the GPU instance.
        instance: u32,
    },
    /// A PCI function, passed to a virtual machine.
    Function {
        /// Its PCI address.
        address: String,
    },
}

// === impl Unit ===

impl Unit {
    /// Whether both have a part of the hardware in common: a GPU contains its instances.
    // req: GPU-32
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gpu { uuid: one }, Self::Gpu { uuid: other } | Self::Mig { gpu: other, .. })
            | (Self::Mig { gpu: one, .. }, Self::Gpu { uuid: other }) => one == other,
            _ => self == other,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu { uuid } => write!(f, "{uuid}"),
            Self::Mig { gpu, instance } => write!(f, "GPU instance {instance} of {gpu}"),
            Self::Function { address } => write!(f, "PCI function {address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: GPU-32
    #[test]
    fn a_gpu_overlaps_itself_and_its_instances_and_instances_do_not_overlap_each_other() {
        let gpu = |uuid: &str| Unit::Gpu {
            uuid: uuid.to_owned(),
        };
        let mig = |gpu: &str, instance| Unit::Mig {
            gpu: gpu.to_owned(),
            instance,
        };
        let overlapping = [
            (gpu("a"), gpu("a")),
            (gpu("a"), mig("a", 1)),
            (mig("a", 1), mig("a", 1)),
        ];
        for (one, other) in overlapping {
            assert!(
                one.overlaps(&other) && other.overlaps(&one),
                "{one}, {other}"
            );
        }
        let apart = [
            (gpu("a"), gpu("b")),
            (gpu("a"), mig("b", 1)),
            (mig("a", 1), mig("a", 2)),
            (mig("a", 1), mig("b", 1)),
        ];
        for (one, other) in apart {
            assert!(
                !one.overlaps(&other) && !other.overlaps(&one),
                "{one}, {other}"
            );
        }
    }
}
