//! Groups GPUs with the same value, so that a message about many GPUs is one short line.

use std::fmt::{self, Formatter};

use crate::gpu::GpuRef;

/// Maximum number of groups in a message; a node's GPUs are rarely in more than two states.
const MAX_GROUPS: usize = 4;

/// Maximum number of index ranges of a group.
const MAX_RANGES: usize = 8;

/// The GPUs with the same value.
pub(crate) struct Group<'a, T> {
    gpus: Vec<&'a GpuRef>,
    pub(crate) value: T,
}

/// A list of GPUs. Displays as `gpu 2 (GPU-…)` or `gpus 0-3, 7`.
pub(crate) struct GpuList<'a>(&'a [&'a GpuRef]);

/// Groups GPUs by value, in the order of each group's first GPU.
pub(crate) fn group_by_value<'a, T: PartialEq>(
    gpus: impl IntoIterator<Item = (&'a GpuRef, T)>,
) -> Vec<Group<'a, T>> {
    let mut groups: Vec<Group<'a, T>> = Vec::new();
    for (gpu, value) in gpus {
        match groups.iter_mut().find(|group| group.value == value) {
            Some(group) => group.gpus.push(gpu),
            None => groups.push(Group {
                gpus: vec![gpu],
                value,
            }),
        }
    }
    groups
}

/// Writes the first [`MAX_GROUPS`] groups with `write_one`, and the number of other GPUs.
pub(crate) fn write_groups<T>(
    f: &mut Formatter<'_>,
    groups: &[Group<'_, T>],
    write_one: impl Fn(&mut Formatter<'_>, &Group<'_, T>) -> fmt::Result,
) -> fmt::Result {
    for (index, group) in groups.iter().take(MAX_GROUPS).enumerate() {
        if index > 0 {
            f.write_str("; ")?;
        }
        write_one(f, group)?;
    }
    match groups.iter().skip(MAX_GROUPS).map(Group::len).sum() {
        0 => Ok(()),
        1 => f.write_str("; and 1 more GPU"),
        more => write!(f, "; and {more} more GPUs"),
    }
}

// === impl Group ===

impl<T> Group<'_, T> {
    pub(crate) fn gpus(&self) -> GpuList<'_> {
        GpuList(&self.gpus)
    }

    /// The verb that agrees with [`gpus`](Self::gpus).
    pub(crate) fn is_or_are(&self) -> &'static str {
        if self.len() == 1 { "is" } else { "are" }
    }

    fn len(&self) -> usize {
        self.gpus.len()
    }
}

// === impl GpuList ===

impl fmt::Display for GpuList<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let [only] = self.0 {
            return only.fmt(f);
        }
        let ranges = ranges(self.0.iter().map(|gpu| gpu.index).collect());
        f.write_str("gpus ")?;
        for (index, (first, last)) in ranges.iter().take(MAX_RANGES).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        let rest = ranges.iter().skip(MAX_RANGES);
        match rest.map(|(first, last)| last - first + 1).sum::<u32>() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The indices as ascending ranges (first, last).
fn ranges(mut indices: Vec<u32>) -> Vec<(u32, u32)> {
    indices.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in indices {
        match ranges.last_mut() {
            Some((_, last)) if index - *last <= 1 => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(indices: impl IntoIterator<Item = u32>) -> String {
        let gpus: Vec<_> = indices
            .into_iter()
            .map(|index| GpuRef { index, uuid: None })
            .collect();
        GpuList(&gpus.iter().collect::<Vec<_>>()).to_string()
    }

    #[test]
    fn neighbouring_indices_are_written_as_ranges_in_ascending_order() {
        assert_eq!(list([5]), "gpu 5");
        assert_eq!(list(0..8), "gpus 0-7");
        assert_eq!(list([7, 0, 1, 2, 9, 10]), "gpus 0-2, 7, 9-10");
        assert_eq!(list([0, 2]), "gpus 0, 2");
    }

    #[test]
    fn only_the_first_ranges_are_written_and_the_rest_is_counted() {
        let odd = (0..72).filter(|index| index % 2 == 1);
        assert_eq!(list(odd), "gpus 1, 3, 5, 7, 9, 11, 13, 15 and 28 more");
        let ends = (0..1024).filter(|index| index % 64 != 63);
        let text = list(ends);
        assert!(text.len() < 100, "{text}");
        assert!(text.ends_with(" and 504 more"), "{text}");
    }
}
