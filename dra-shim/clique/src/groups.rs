//! GPUs of which the same is to be said, told together and in a bounded line.

use std::fmt::{self, Formatter};

use crate::gpu::GpuRef;

/// How many groups are told; a node's GPUs rarely are in more than two states.
const MOST_GROUPS: usize = 4;

/// How many runs of neighbouring indices a group is told by.
const MOST_RUNS: usize = 8;

/// GPUs that have one value.
pub(crate) struct Group<'a, T> {
    gpus: Vec<&'a GpuRef>,
    pub(crate) value: T,
}

/// Displays as `gpu 2 (GPU-…)`, or as `gpus 0-3, 7`.
pub(crate) struct Named<'a>(&'a [&'a GpuRef]);

/// The groups, in the order in which their first GPU comes.
pub(crate) fn grouped<'a, T: PartialEq>(
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

/// Writes each group with `tell`, and of the last of many only how many GPUs
/// they are.
pub(crate) fn write_groups<T>(
    f: &mut Formatter<'_>,
    groups: &[Group<'_, T>],
    tell: impl Fn(&mut Formatter<'_>, &Group<'_, T>) -> fmt::Result,
) -> fmt::Result {
    for (index, group) in groups.iter().take(MOST_GROUPS).enumerate() {
        if index > 0 {
            f.write_str("; ")?;
        }
        tell(f, group)?;
    }
    match groups.iter().skip(MOST_GROUPS).map(Group::len).sum() {
        0 => Ok(()),
        1 => f.write_str("; and 1 more GPU"),
        more => write!(f, "; and {more} more GPUs"),
    }
}

// === impl Group ===

impl<T> Group<'_, T> {
    pub(crate) fn gpus(&self) -> Named<'_> {
        Named(&self.gpus)
    }

    pub(crate) fn are(&self) -> &'static str {
        if self.len() == 1 { "is" } else { "are" }
    }

    fn len(&self) -> usize {
        self.gpus.len()
    }
}

// === impl Named ===

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let [only] = self.0 {
            return only.fmt(f);
        }
        let runs = runs(self.0.iter().map(|gpu| gpu.index).collect());
        f.write_str("gpus ")?;
        for (index, (first, last)) in runs.iter().take(MOST_RUNS).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        let left = runs.iter().skip(MOST_RUNS);
        match left.map(|(first, last)| last - first + 1).sum::<u32>() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Neighbouring indices as (first, last), ascending.
fn runs(mut indices: Vec<u32>) -> Vec<(u32, u32)> {
    indices.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for index in indices {
        match runs.last_mut() {
            Some((_, last)) if index - *last <= 1 => *last = index,
            _ => runs.push((index, index)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(indices: impl IntoIterator<Item = u32>) -> String {
        let gpus: Vec<_> = indices
            .into_iter()
            .map(|index| GpuRef { index, uuid: None })
            .collect();
        Named(&gpus.iter().collect::<Vec<_>>()).to_string()
    }

    #[test]
    fn neighbours_are_told_by_the_first_and_the_last_in_ascending_order() {
        assert_eq!(named([5]), "gpu 5");
        assert_eq!(named(0..8), "gpus 0-7");
        assert_eq!(named([7, 0, 1, 2, 9, 10]), "gpus 0-2, 7, 9-10");
        assert_eq!(named([0, 2]), "gpus 0, 2");
    }

    #[test]
    fn of_many_scattered_ones_the_first_are_named_and_the_rest_counted() {
        let odd = (0..72).filter(|index| index % 2 == 1);
        assert_eq!(named(odd), "gpus 1, 3, 5, 7, 9, 11, 13, 15 and 28 more");
        let ends = (0..1024).filter(|index| index % 64 != 63);
        let said = named(ends);
        assert!(said.len() < 100, "{said}");
        assert!(said.ends_with(" and 504 more"), "{said}");
    }
}
