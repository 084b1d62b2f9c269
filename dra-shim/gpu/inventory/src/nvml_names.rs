//! NVML's numbers as the texts that NVIDIA's driver publishes.

// req: GPU-4
/// The name of an `nvmlDeviceArchitecture_t`; `Unknown` for other numbers.
pub fn architecture(number: u32) -> &'static str {
    match number {
        2 => "Kepler",
        3 => "Maxwell",
        4 => "Pascal",
        5 => "Volta",
        6 => "Turing",
        7 => "Ampere",
        8 => "Ada Lovelace",
        9 => "Hopper",
        10 => "Blackwell",
        13 => "Rubin",
        _ => "Unknown",
    }
}

/// The name of an `nvmlBrandType_t`; `Unknown` for other numbers.
pub fn brand(number: u32) -> &'static str {
    const BRANDS: [&str; 17] = [
        "Unknown",
        "Quadro",
        "Tesla",
        "NVS",
        "Grid",
        "GeForce",
        "Titan",
        "NvidiaVApps",
        "NvidiaVPC",
        "NvidiaVCS",
        "NvidiaVWS",
        "NvidiaCloudGaming",
        "QuadroRTX",
        "NvidiaRTX",
        "Nvidia",
        "GeForceRTX",
        "TitanRTX",
    ];
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    BRANDS.get(index).copied().unwrap_or("Unknown")
}

/// The name of an `nvmlDeviceAddressingModeType_t`; `None` for other numbers.
pub fn addressing_mode(number: u32) -> Option<&'static str> {
    match number {
        0 => Some("None"),
        1 => Some("HMM"),
        2 => Some("ATS"),
        _ => None,
    }
}

/// The name of an `nvmlDeviceGpuRecoveryAction_t`, as `nvidia-smi` prints it; `None` for other numbers.
pub fn recovery_action(number: u32) -> Option<&'static str> {
    match number {
        0 => Some("None"),
        1 => Some("Reset"),
        2 => Some("Reboot"),
        3 => Some("Drain P2P"),
        4 => Some("Drain and Reset"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_number_has_a_name_or_none_and_is_no_error() {
        assert_eq!((architecture(13), architecture(14)), ("Rubin", "Unknown"));
        assert_eq!(
            (brand(16), brand(17), brand(u32::MAX)),
            ("TitanRTX", "Unknown", "Unknown")
        );
        assert_eq!(
            (addressing_mode(2), addressing_mode(3)),
            (Some("ATS"), None)
        );
        assert_eq!(
            (recovery_action(0), recovery_action(9)),
            (Some("None"), None)
        );
    }
}
