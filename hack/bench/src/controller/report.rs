//! The tables, one row for each size.

mod growth;
mod requests;
mod resources;
mod times;

use std::io::Write;

use super::measured::Size;

pub(super) fn write(out: &mut impl Write, at_once: u16, sizes: &[Size]) -> anyhow::Result<()> {
    times::write(out, at_once, sizes)?;
    requests::write(out, sizes)?;
    resources::write(out, sizes)?;
    growth::write(out, sizes)
}
