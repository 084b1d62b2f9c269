//! Enumerates every state that a crash of a recorded run could leave.

use std::fmt;
use std::iter;
use std::ops::AddAssign;

use super::dir::SimDir;
use super::disk::{Event, EventKind};
use super::image::Image;
use super::loss::losses;

/// One state that a crash at one moment of a run could leave.
#[derive(Debug)]
#[non_exhaustive]
pub struct Crash {
    /// What crashed.
    pub cause: Cause,
    /// The number of steps before the crash.
    pub after: usize,
    /// The number of operations acknowledged before the crash, with
    /// [`SimDir::acknowledge`]. One more may have been in progress.
    pub acknowledged: usize,
    /// The directory as the next process opens it: with a new recording, no steps
    /// done, no failure or crash armed, no lock held, temp files swept.
    pub dir: SimDir,
    at: u64,
    note: String,
}

/// What crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The process: all its changes are visible, and a later power loss may undo
    /// unsynced ones.
    Kill,
    /// The machine: unsynced changes are there completely, in part or not at all.
    PowerLoss,
}

/// The size of an enumeration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Operations that the scenario acknowledged.
    pub operations: usize,
    /// Moments at which a crash was simulated.
    pub crash_points: usize,
    /// Checked states; distinct at each moment.
    pub states: usize,
}

/// The disk at one moment of a run.
#[derive(Clone)]
struct Point {
    at: u64,
    after: usize,
    acknowledged: usize,
    image: Image,
}

/// Runs `scenario` in an empty directory, and `check` on every state that a crash
/// at any moment could leave. `check` panics at a violation.
///
/// ```
/// use durable_file::{Dir, sim};
///
/// let states: [Option<&[u8]>; 3] = [None, Some(b"one"), Some(b"two")];
/// let counts = sim::enumerate(
///     |dir| {
///         for content in states.iter().flatten() {
///             dir.replace("state", content, 0o600).unwrap();
///             dir.acknowledge();
///         }
///     },
///     |crash| {
///         let found = crash.dir.read("state").unwrap();
///         let in_flight = (crash.acknowledged + 1).min(2);
///         let allowed = &states[crash.acknowledged..=in_flight];
///         assert!(allowed.contains(&found.as_deref()), "{crash}: {found:?}");
///     },
/// );
/// println!("{counts}"); // 2 operations, 13 crash points, 28 states
/// # assert_eq!(counts.to_string(), "2 operations, 13 crash points, 28 states");
/// ```
///
/// # Panics
///
/// Like [`SimDir::crashes`], and if the scenario has no steps.
pub fn enumerate(scenario: impl FnOnce(&SimDir), mut check: impl FnMut(&Crash)) -> Counts {
    let dir = SimDir::new();
    scenario(&dir);
    assert!(!dir.steps().is_empty(), "the scenario has no steps");
    let mut counts = Counts::default();
    for point in dir.points() {
        counts.operations = point.acknowledged;
        counts.crash_points += 1;
        for crash in point.crashes() {
            counts.states += 1;
            check(&crash);
        }
    }
    counts
}

// === impl SimDir ===

impl SimDir {
    /// Records that an operation of the scenario is done: no later crash may undo
    /// it. See [`Crash::acknowledged`].
    pub fn acknowledge(&self) {
        let mut disk = self.disk();
        if !disk.has_crashed() {
            disk.record(EventKind::Acknowledged);
        }
    }

    /// Returns every distinct state that a crash could leave, at each moment of this
    /// directory's recording. Does not change the directory.
    ///
    /// The README lists the effects of a power loss. For crashes during the recovery
    /// from a crash, call `crashes` on the crash's directory.
    ///
    /// # Panics
    ///
    /// If there are too many unsynced changes to enumerate: more than 12 of names, or
    /// some 16 000 states at one moment. A partial enumeration would prove nothing.
    pub fn crashes(&self) -> impl Iterator<Item = Crash> + use<> {
        self.points().flat_map(|point| point.crashes())
    }

    /// Returns every state of this directory after the crash that left `other` of a
    /// second directory: at the same moment and with the same cause. For a program
    /// that writes to two directories of one machine; every combination is possible.
    ///
    /// # Panics
    ///
    /// Like [`crashes`](Self::crashes).
    pub fn crashes_with(&self, other: &Crash) -> impl Iterator<Item = Crash> + use<> {
        let (at, cause) = (other.at, other.cause);
        let point = self.points().take_while(|point| point.at <= at).last();
        point.into_iter().flat_map(move |point| match cause {
            Cause::Kill => vec![point.kill()],
            Cause::PowerLoss => point.losses(),
        })
    }

    /// Like [`crashes`](Self::crashes), but only those of the process: one state at each moment.
    pub fn kills(&self) -> impl Iterator<Item = Crash> + use<> {
        self.points().map(|point| point.kill())
    }

    /// The disk at the beginning and after each event.
    fn points(&self) -> impl Iterator<Item = Point> + use<> {
        let disk = self.disk();
        let mut point = Point {
            at: 0,
            after: 0,
            acknowledged: 0,
            image: disk.start.clone(),
        };
        let log = disk.log.clone();
        drop(disk);
        iter::once(point.clone()).chain(log.into_iter().map(move |event| {
            point.advance(&event);
            point.clone()
        }))
    }
}

// === impl Point ===

impl Point {
    fn advance(&mut self, event: &Event) {
        self.at = event.at;
        match &event.kind {
            EventKind::Step(change) => {
                self.after += 1;
                self.image.apply(change);
            }
            EventKind::Uncounted(change) => self.image.apply(change),
            EventKind::Acknowledged => self.acknowledged += 1,
        }
    }

    fn crashes(&self) -> Vec<Crash> {
        iter::once(self.kill()).chain(self.losses()).collect()
    }

    fn kill(&self) -> Crash {
        self.crash(Cause::Kill, self.image.clone(), String::new())
    }

    fn losses(&self) -> Vec<Crash> {
        let losses = losses(&self.image).into_iter();
        losses
            .map(|loss| self.crash(Cause::PowerLoss, loss.image, loss.note))
            .collect()
    }

    fn crash(&self, cause: Cause, image: Image, note: String) -> Crash {
        Crash {
            cause,
            after: self.after,
            acknowledged: self.acknowledged,
            dir: SimDir::opened(image),
            at: self.at,
            note,
        }
    }
}

// === impl Crash ===

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            Cause::Kill => "kill",
            Cause::PowerLoss => "power loss",
        };
        write!(
            f,
            "{cause} after step {}, {} acknowledged",
            self.after, self.acknowledged
        )?;
        if !self.note.is_empty() {
            write!(f, ", {}", self.note)?;
        }
        Ok(())
    }
}

// === impl Counts ===

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.operations += more.operations;
        self.crash_points += more.crash_points;
        self.states += more.states;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} operations, {} crash points, {} states",
            self.operations, self.crash_points, self.states
        )
    }
}
