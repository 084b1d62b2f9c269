//! The fabric health of a GPU, decoded from NVML's mask and summary.

use std::fmt;

/// The fabric health that NVML reports with the state (fabric info v2 and newer).
///
/// Displays the problems, or `healthy`, or `health not reported`; then unknown values; then
/// the mask, if there are problems or unknown values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// `healthMask`, unchanged.
    pub mask: u32,
    /// `healthSummary`, only in fabric info v3.
    pub summary: Option<HealthSummary>,
}

/// NVML's own summary of the health (`NVML_GPU_FABRIC_HEALTH_SUMMARY_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthSummary {
    /// The GPU does not report a summary.
    NotSupported,
    /// No problem.
    Healthy,
    /// Not usable.
    Unhealthy,
    /// Usable with reduced capacity.
    LimitedCapacity,
    /// A value unknown to this crate.
    Unrecognised(u8),
}

/// A yes/no field of the mask: two bits, 1 = true, 2 = false, 0 = not reported.
struct Flag {
    shift: u32,
    name: &'static str,
    /// The values that report a problem, and its name.
    problems: &'static [(u32, &'static str)],
}

/// `NVML_GPU_FABRIC_HEALTH_MASK_*` of `nvml.h`. The last field and the third value of routes
/// are newer than the bindings. They come from NVIDIA's open kernel modules
/// (`NVLINK_INBAND_FABRIC_HEALTH_MASK_*`); NVML passes them on.
const FLAGS: [Flag; 5] = [
    Flag {
        shift: 0,
        name: "degraded bandwidth",
        problems: &[(TRUE, "degraded bandwidth")],
    },
    Flag {
        shift: 2,
        name: "route recovery",
        problems: &[(TRUE, "route recovery in progress")],
    },
    Flag {
        shift: 4,
        name: "unhealthy route",
        problems: &[
            (TRUE, "unhealthy route"),
            (NEITHER, "unhealthy route, GPU reset required"),
        ],
    },
    Flag {
        shift: 6,
        name: "access timeout recovery",
        problems: &[(TRUE, "access timeout recovery in progress")],
    },
    Flag {
        shift: 12,
        name: "partition assigned",
        problems: &[(FALSE, "no partition assigned")],
    },
];
const FLAG_MASK: u32 = 0b11;
const TRUE: u32 = 1;
const FALSE: u32 = 2;
const NEITHER: u32 = 3;

/// The configuration field: four bits from bit 8, 0 = not reported, 1 = correct.
const CONFIGURATION_SHIFT: u32 = 8;
const CONFIGURATION_MASK: u32 = 0xf;

/// Bits outside of all fields above.
const UNKNOWN_BITS: u32 = !0x3fff;

// === impl Flag ===

impl Flag {
    fn value(&self, mask: u32) -> u32 {
        (mask >> self.shift) & FLAG_MASK
    }

    fn problem(&self, mask: u32) -> Option<&'static str> {
        let value = self.value(mask);
        let problem = self.problems.iter().find(|(bad, _)| *bad == value);
        problem.map(|(_, name)| *name)
    }
}

// === impl Health ===

impl Health {
    /// Whether the mask or the summary reports a problem.
    ///
    /// Unreported fields and unknown values count as healthy: a newer driver must not make
    /// every GPU look degraded. The exception is an incorrect configuration, which is a problem
    /// even if its kind is unknown.
    pub fn is_degraded(&self) -> bool {
        !self.problems().is_empty()
    }

    /// Whether the mask or the summary has a known value. A mask of 0 and the summary "not
    /// supported" do not count: they do not mean good health.
    pub fn is_reported(&self) -> bool {
        let mut flags = FLAGS.iter().map(|flag| flag.value(self.mask));
        let is_good = flags.any(|value| [TRUE, FALSE].contains(&value))
            || self.configuration() == 1
            || self.summary == Some(HealthSummary::Healthy);
        is_good || self.is_degraded()
    }

    /// The names of the problems, first those of the mask; empty for a healthy GPU.
    pub fn problems(&self) -> Vec<String> {
        let flags = FLAGS.iter().filter_map(|flag| flag.problem(self.mask));
        let mut problems: Vec<_> = flags.map(str::to_owned).collect();
        problems.extend(self.incorrect_configuration());
        match self.summary {
            Some(HealthSummary::Unhealthy) => problems.push("summary: unhealthy".to_owned()),
            Some(HealthSummary::LimitedCapacity) => {
                problems.push("summary: limited capacity".to_owned());
            }
            _ => {}
        }
        problems
    }

    /// The values unknown to this crate. They have no effect on [`Self::is_degraded`].
    pub fn unknown_values(&self) -> Vec<String> {
        let flags = FLAGS
            .iter()
            .filter(|flag| flag.value(self.mask) == NEITHER && flag.problem(self.mask).is_none());
        let mut unknown: Vec<_> = flags
            .map(|flag| format!("{}: unknown value {NEITHER}", flag.name))
            .collect();
        let bits = self.mask & UNKNOWN_BITS;
        if bits != 0 {
            unknown.push(format!("unknown bits {bits:#x}"));
        }
        if let Some(HealthSummary::Unrecognised(value)) = self.summary {
            unknown.push(format!("summary: unknown value {value}"));
        }
        unknown
    }

    fn configuration(self) -> u32 {
        (self.mask >> CONFIGURATION_SHIFT) & CONFIGURATION_MASK
    }

    fn incorrect_configuration(self) -> Option<String> {
        let known = match self.configuration() {
            0 | 1 => return None,
            2 => "system GUID",
            3 => "chassis serial number",
            4 => "no partition",
            5 => "too few NVLinks",
            6 => "incompatible GPU firmware",
            7 => "invalid location",
            8 => "invalid GPU state",
            newer => return Some(format!("incorrect configuration: unknown value {newer}")),
        };
        Some(format!("incorrect configuration: {known}"))
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.problems();
        if parts.is_empty() {
            let reported = if self.is_reported() {
                "healthy"
            } else {
                "health not reported"
            };
            parts.push(reported.to_owned());
        }
        parts.extend(self.unknown_values());
        f.write_str(&parts.join(", "))?;
        if parts.len() > 1 || self.is_degraded() {
            write!(f, " (mask {:#x})", self.mask)?;
        }
        Ok(())
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
    fn every_yes_no_field_has_its_own_two_bits() {
        let shifts = [
            sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW,
            sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY,
            sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY,
            sys::NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY,
        ];
        for (flag, from_header) in FLAGS.iter().zip(shifts) {
            assert_eq!(flag.shift, from_header);
            let problems = health(TRUE << flag.shift).problems();
            assert!(
                problems.len() == 1 && problems[0].starts_with(flag.name),
                "{problems:?}"
            );
            assert!(!health(FALSE << flag.shift).is_degraded(), "{}", flag.name);
        }
        assert_eq!(health(FALSE << 12).problems(), ["no partition assigned"]);
        assert!(!health(TRUE << 12).is_degraded());
        assert_eq!(
            health(NEITHER << 4).problems(),
            ["unhealthy route, GPU reset required"]
        );
    }

    #[test]
    fn unknown_values_are_displayed_and_degrade_no_gpu() {
        let newer = Health {
            mask: 0x8000_01ab,
            summary: Some(HealthSummary::Unrecognised(9)),
        };
        assert!(!newer.is_degraded());
        assert_eq!(
            newer.to_string(),
            "healthy, degraded bandwidth: unknown value 3, unknown bits 0x80000000, \
             summary: unknown value 9 (mask 0x800001ab)"
        );
    }

    #[test]
    fn every_bit_of_the_mask_is_a_problem_unknown_or_good() {
        // Each bit alone: a problem, an unknown value, or a field's "fine".
        let fine = [1, 3, 5, 7, 8, 12];
        for bit in 0..32 {
            let health = health(1 << bit);
            let reported = health.problems().len() + health.unknown_values().len();
            assert_eq!(
                reported,
                usize::from(!fine.contains(&bit)),
                "bit {bit}: {health}"
            );
        }
    }

    #[test]
    fn a_mask_without_problems_is_healthy_and_an_empty_mask_is_not() {
        // false in all four fields, configuration correct
        assert_eq!(health(0x1aa).to_string(), "healthy");
        for summary in [None, Some(HealthSummary::NotSupported)] {
            let unreported = Health { mask: 0, summary };
            assert_eq!(unreported.to_string(), "health not reported");
            assert!(!unreported.is_reported() && !unreported.is_degraded());
        }
        let by_summary = Health {
            mask: 0,
            summary: Some(HealthSummary::Healthy),
        };
        assert_eq!(by_summary.to_string(), "healthy");
        assert!(health(NEITHER << 4).is_reported());
    }

    #[test]
    fn an_incorrect_configuration_is_a_problem_even_if_its_kind_is_unknown() {
        assert_eq!(
            health(0x4aa).to_string(),
            "incorrect configuration: no partition (mask 0x4aa)"
        );
        let kinds: Vec<_> = (2..9)
            .flat_map(|kind| health(kind << 8).problems())
            .collect();
        assert_eq!(
            kinds.join("; ").replace("incorrect configuration: ", ""),
            "system GUID; chassis serial number; no partition; too few NVLinks; \
             incompatible GPU firmware; invalid location; invalid GPU state"
        );
        assert_eq!(
            health(0xfaa).to_string(),
            "incorrect configuration: unknown value 15 (mask 0xfaa)"
        );
    }

    #[test]
    fn the_summary_alone_can_report_a_problem() {
        let health = Health {
            mask: 0x1aa,
            summary: Some(HealthSummary::LimitedCapacity),
        };
        assert_eq!(health.to_string(), "summary: limited capacity (mask 0x1aa)");
    }
}
