//! The access to a device node that the device cgroup allows.

use std::str::FromStr;

use serde::Serialize;

/// What a container may do with a device node: any of `r`, `w` and `m` (mknod).
/// The last is not needed where the runtime makes the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Permissions {
    /// open(2) for reading.
    pub read: bool,
    /// open(2) for writing.
    pub write: bool,
    /// mknod(2) with the same numbers.
    pub mknod: bool,
}

/// A string with other letters than those of [`Permissions`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("device permissions {0:?} have a letter other than r, w and m")]
pub struct UnknownPermission(String);

impl Permissions {
    /// Open for reading and writing, no mknod.
    pub const READ_WRITE: Self = Self {
        read: true,
        write: true,
        mknod: false,
    };

    /// Whether nothing is allowed, which CDI 1.1.0 cannot express.
    pub(crate) fn is_none(self) -> bool {
        let Self { read, write, mknod } = self;
        !(read || write || mknod)
    }
}

#[cfg(feature = "nri")]
impl Permissions {
    /// What either allows.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            write: self.write || other.write,
            mknod: self.mknod || other.mknod,
        }
    }

    /// Whether everything is allowed that `other` allows.
    pub(crate) fn contains(self, other: Self) -> bool {
        self.union(other) == self
    }
}

impl FromStr for Permissions {
    type Err = UnknownPermission;

    fn from_str(text: &str) -> Result<Self, UnknownPermission> {
        if text.chars().all(|c| matches!(c, 'r' | 'w' | 'm')) {
            Ok(Self {
                read: text.contains('r'),
                write: text.contains('w'),
                mknod: text.contains('m'),
            })
        } else {
            Err(UnknownPermission(text.to_owned()))
        }
    }
}

impl From<Permissions> for String {
    fn from(Permissions { read, write, mknod }: Permissions) -> Self {
        [(read, 'r'), (write, 'w'), (mknod, 'm')]
            .into_iter()
            .filter_map(|(allowed, letter)| allowed.then_some(letter))
            .collect()
    }
}
