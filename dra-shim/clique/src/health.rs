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
struct Flag {
    shift: u32,
    name: &'static str,
    /// Which of the values say that something is wrong, and how.
    problems: &'static [(u32, &'static str)],
}

/// `NVML_GPU_FABRIC_HEALTH_MASK_*` of `nvml.h`. The last field and the third
/// value of routes are newer than the bindings; they are those of NVIDIA's open
/// kernel modules (`NVLINK_INBAND_FABRIC_HEALTH_MASK_*`), which NVML passes on.
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

/// Bits that belong to none of the fields above.
const UNKNOWN_BITS: u32 = !0x3fff;

// === impl Flag ===

impl Flag {
    fn of(&self, mask: u32) -> u32 {
        (mask >> self.shift) & FLAG_MASK
    }

    fn problem(&self, mask: u32) -> Option<&'static str> {
        let value = self.of(mask);
        let known = self.problems.iter().find(|(it, _)| *it == value);
        known.map(|(_, words)| *words)
    }
}

// === impl Health ===

impl Health {
    /// True if anything in the mask or the summary says that the GPU's part of
    /// the fabric is less than healthy. Fields that are not reported count as
    /// healthy, and so does what this crate has no words for: a newer driver
    /// must not make every GPU look ill. (A wrong configuration is one whatever
    /// its kind.)
    pub fn is_degraded(&self) -> bool {
        !self.problems().is_empty()
    }

    /// Each problem in a few words, mask first; empty for a healthy GPU.
    pub fn problems(&self) -> Vec<String> {
        let flags = FLAGS.iter().filter_map(|flag| flag.problem(self.mask));
        let mut problems: Vec<_> = flags.map(str::to_owned).collect();
        problems.extend(self.wrong_configuration());
        match self.summary {
            Some(HealthSummary::Unhealthy) => problems.push("summary: unhealthy".to_owned()),
            Some(HealthSummary::LimitedCapacity) => {
                problems.push("summary: limited capacity".to_owned());
            }
            _ => {}
        }
        problems
    }

    /// What NVML reports and this crate has no words for; no judgement.
    pub fn unknowns(&self) -> Vec<String> {
        let flags = FLAGS
            .iter()
            .filter(|flag| flag.of(self.mask) == NEITHER && flag.problem(self.mask).is_none());
        let mut unknowns: Vec<_> = flags
            .map(|flag| format!("{}: unknown value {NEITHER}", flag.name))
            .collect();
        let bits = self.mask & UNKNOWN_BITS;
        if bits != 0 {
            unknowns.push(format!("unknown bits {bits:#x}"));
        }
        if let Some(HealthSummary::Unrecognised(value)) = self.summary {
            unknowns.push(format!("summary: unknown value {value}"));
        }
        unknowns
    }

    fn wrong_configuration(self) -> Option<String> {
        let known = match (self.mask >> CONFIGURATION_SHIFT) & CONFIGURATION_MASK {
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

/// The problems in words, or `healthy`; then what there are no words for, and
/// the mask unless there is nothing to say.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.problems();
        if said.is_empty() {
            said.push("healthy".to_owned());
        }
        said.extend(self.unknowns());
        f.write_str(&said.join(", "))?;
        if said.len() > 1 || self.is_degraded() {
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
    fn every_yes_no_field_is_read_from_its_own_two_bits() {
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
    fn what_there_are_no_words_for_is_shown_and_makes_no_gpu_ill() {
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
    fn no_mask_goes_without_a_word_for_each_of_its_bits() {
        // Every single bit, alone: told as a problem, as unknown, or a field's "fine".
        let fine = [1, 3, 5, 7, 8, 12];
        for bit in 0..32 {
            let health = health(1 << bit);
            let told = health.problems().len() + health.unknowns().len();
            assert_eq!(
                told,
                usize::from(!fine.contains(&bit)),
                "bit {bit}: {health}"
            );
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
    fn the_summary_alone_is_enough_to_be_degraded() {
        let health = Health {
            mask: 0x1aa,
            summary: Some(HealthSummary::LimitedCapacity),
        };
        assert_eq!(health.to_string(), "summary: limited capacity (mask 0x1aa)");
    }
}
