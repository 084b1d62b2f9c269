//! Choices of a generated case.

use fastrand::Rng;

/// What the generators draw from.
pub(crate) trait Draw {
    /// One of `choices`.
    fn pick<T: Clone>(&mut self, choices: &[T]) -> T;
    /// True once in `n` times.
    fn once_in(&mut self, n: u32) -> bool;
    /// As many values of `make` as `how_many` allows.
    fn several<T>(
        &mut self,
        how_many: std::ops::Range<usize>,
        make: impl FnMut(&mut Self) -> T,
    ) -> Vec<T>;
}

impl Draw for Rng {
    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        self.choice(choices).unwrap().clone()
    }

    fn once_in(&mut self, n: u32) -> bool {
        self.u32(0..n) == 0
    }

    fn several<T>(
        &mut self,
        how_many: std::ops::Range<usize>,
        mut make: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let n = self.usize(how_many);
        (0..n).map(|_| make(self)).collect()
    }
}
