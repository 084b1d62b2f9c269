//! The name of a clique: GPUs of one NVLink fabric that can map each other's memory.

use std::fmt;

/// The UUID of an NVLink fabric, 16 bytes in NVML's order.
///
/// All zero means that the GPU has NVLink but belongs to no multi-node fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterUuid(pub [u8; 16]);

/// A clique: the fabric, and the number of the partition in it.
///
/// Displays as `<uuid>.<id>`, like the node label and the `CLIQUE_ID` environment variable of
/// NVIDIA's driver. Id 0 is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CliqueId {
    /// The fabric.
    pub cluster: ClusterUuid,
    /// The partition; 0 is valid.
    pub id: u32,
}

// === impl ClusterUuid ===

impl ClusterUuid {
    /// Whether the UUID is all zero, which means no fabric.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for ClusterUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

// === impl CliqueId ===

impl fmt::Display for CliqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cluster, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clique_is_displayed_as_uuid_dot_id_also_with_id_zero() {
        let cluster = ClusterUuid([
            0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba,
            0xdc, 0xfe,
        ]);
        assert_eq!(
            CliqueId { cluster, id: 0 }.to_string(),
            "01234567-89ab-cdef-1032-547698badcfe.0"
        );
        assert_eq!(
            CliqueId {
                cluster,
                id: u32::MAX
            }
            .to_string(),
            "01234567-89ab-cdef-1032-547698badcfe.4294967295"
        );
    }

    #[test]
    fn only_the_all_zero_uuid_is_zero() {
        let mut bytes = [0; 16];
        assert!(ClusterUuid(bytes).is_zero());
        bytes[15] = 1;
        assert!(!ClusterUuid(bytes).is_zero());
    }
}
