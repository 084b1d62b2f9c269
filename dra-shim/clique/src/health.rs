//! The health mask of a GPU's fabric registration, in words.

use std::fmt;

/// Fabric health as NVML reports it beside the state (info v2 and newer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// `healthMask`, as reported.
    pub mask: u32,
    /// `healthSummary`; only info v3 has it.
    pub summary: Option<HealthSummary>,
}

/// NVML's own verdict over the mask (`NVML_GPU_FABRIC_HEALTH_SUMMARY_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthSummary {
    /// The GPU does not report one.
    NotSupported,
    /// Nothing to report.
    Healthy,
    /// Not usable as it is.
    Unhealthy,
    /// Usable with reduced capacity.
    LimitedCapacity,
    /// A value newer than this crate.
    Unrecognised(u8),
}

/// A yes/no field of the mask: two bits, 1 = true, 2 = false, 0 = not reported.
/// Shifts and widths are those of `NVML_GPU_FABRIC_HEALTH_MASK_*` in `nvml.h`.
const FLAGS: [(u32, &str); 4] = [
    (0, "degraded bandwidth"),
    (2, "route recovery in progress"),
    (4, "unhealthy route"),
    (6, "access timeout recovery in progress"),
];
const FLAG_MASK: u32 = 0b11;
const FLAG_TRUE: u32 = 1;

/// The configuration field: four bits from bit 8, 0 = not reported, 1 = correct.
const CONFIGURATION_SHIFT: u32 = 8;
const CONFIGURATION_MASK: u32 = 0xf;

// === impl Health ===

impl Health {
    /// True if anything in the mask or the summary says that the GPU's part of
    /// the fabric is less than healthy. Fields that are not reported count as
    /// healthy.
    pub fn is_degraded(&self) -> bool {
        !self.problems().is_empty()
    }

    /// Each problem in a few words, mask first; empty for a healthy GPU.
    pub fn problems(&self) -> Vec<&'static str> {
        let mut problems: Vec<_> = FLAGS
            .iter()
            .filter(|(shift, _)| (self.mask >> shift) & FLAG_MASK == FLAG_TRUE)
            .map(|(_, words)| *words)
            .collect();
        problems.extend(self.wrong_configuration());
        match self.summary {
            Some(HealthSummary::Unhealthy) => problems.push("summary: unhealthy"),
            Some(HealthSummary::LimitedCapacity) => problems.push("summary: limited capacity"),
            _ => {}
        }
        problems
    }

    fn wrong_configuration(self) -> Option<&'static str> {
        match (self.mask >> CONFIGURATION_SHIFT) & CONFIGURATION_MASK {
            0 | 1 => None,
            2 => Some("incorrect configuration: system GUID"),
            3 => Some("incorrect configuration: chassis serial number"),
            4 => Some("incorrect configuration: no partition"),
            5 => Some("incorrect configuration: too few NVLinks"),
            _ => Some("incorrect configuration"),
        }
    }
}

/// The problems in words and the mask they come from, or `healthy`.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.problems();
        if problems.is_empty() {
            return f.write_str("healthy");
        }
        write!(f, "{} (mask {:#x})", problems.join(", "), self.mask)
    }
}

// === impl HealthSummary ===

impl From<u8> for HealthSummary {
    fn from(raw: u8) -> Self {
        match raw {
            0 => Self::NotSupported,
            1 => Self::Healthy,
            2 => Self::Unhealthy,
            3 => Self::LimitedCapacity,
            other => Self::Unrecognised(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvml_wrapper_sys::bindings as sys;

    fn health(mask: u32) -> Health {
        Health {
            mask,
            summary: None,
        }
    }

    #[test]
    fn every_yes_no_field_is_read_from_its_own_two_bits() {
        let shifts = [
            sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW,
            sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY,
            sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY,
            sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY,
        ];
        for ((shift, words), from_header) in FLAGS.iter().zip(shifts) {
            assert_eq!(*shift, from_header);
            assert_eq!(health(1 << shift).problems(), [*words]);
            assert!(!health(2 << shift).is_degraded(), "{words}: false is fine");
        }
    }

    #[test]
    fn a_mask_of_noes_and_one_that_reports_nothing_are_healthy() {
        // false in all four fields, configuration correct
        assert_eq!(health(0x1aa).to_string(), "healthy");
        assert_eq!(health(0).to_string(), "healthy");
    }

    #[test]
    fn a_wrong_configuration_says_which_and_an_unknown_one_is_still_a_problem() {
        assert_eq!(
            health(0x4aa).to_string(),
            "incorrect configuration: no partition (mask 0x4aa)"
        );
        assert_eq!(
            health(0xfaa).to_string(),
            "incorrect configuration (mask 0xfaa)"
        );
    }

    #[test]
    fn the_summary_alone_is_enough_to_be_degraded() {
        let health = Health {
            mask: 0x1aa,
            summary: Some(HealthSummary::LimitedCapacity),
        };
        assert_eq!(health.to_string(), "summary: limited capacity (mask 0x1aa)");
    }
}
