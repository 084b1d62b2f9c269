//! Functions that a library may lack.

use crate::nvml_failure::NvmlFailure;

/// Returns the function named `call`, or [`NvmlFailure::SymbolMissing`].
pub(super) fn required<F: Copy, E>(
    symbol: &Result<F, E>,
    call: &'static str,
) -> Result<F, NvmlFailure> {
    symbol
        .as_ref()
        .copied()
        .map_err(|_| NvmlFailure::SymbolMissing { call })
}
