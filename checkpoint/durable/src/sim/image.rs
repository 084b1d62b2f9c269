//! The content of the simulated disk, and the effect of each change.

use std::collections::BTreeMap;

use crate::name::is_temp_file;

pub(super) type Inode = u64;
pub(super) type Names = BTreeMap<String, Inode>;

/// Contents and names, both as a process sees them and as they are on the disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Image {
    pub(super) files: BTreeMap<Inode, File>,
    next: Inode,
    /// The names that a process sees.
    pub(super) live: Names,
    /// The names at the last fsync of the directory.
    pub(super) durable: Names,
    /// The changes of names since: `durable` with all of them applied is `live`.
    pub(super) unsynced: Vec<NameChange>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    /// The number of durable bytes. Files only grow.
    pub(super) synced: usize,
    pub(super) mode: u32,
    /// An fsync has failed: the kernel marked the pages clean, and no later fsync
    /// writes them.
    pages_lost: bool,
}

/// One change to the disk, with everything that a replay needs.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Create {
        name: String,
        mode: u32,
    },
    Write {
        file: Inode,
        bytes: Vec<u8>,
    },
    SyncFile(Inode),
    /// An fsync that failed.
    LosePages(Inode),
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
    SyncDir,
}

/// The effect of one change on the names. It is on the disk completely or not at all.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Put {
        name: String,
        file: Inode,
    },
    Move {
        from: String,
        to: String,
        file: Inode,
    },
    Remove {
        name: String,
    },
}

// === impl Image ===

impl Image {
    /// The inode that the next [`Change::Create`] will have.
    pub(super) fn next_inode(&self) -> Inode {
        self.next
    }

    /// Applies a change. The caller has checked that it is possible.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { name, mode } => self.create(name, *mode),
            Change::Write { file, bytes } => self.edit(*file, |f| f.bytes.extend(bytes)),
            Change::SyncFile(file) => self.edit(*file, File::sync),
            Change::LosePages(file) => self.edit(*file, |f| f.pages_lost = true),
            Change::Rename { from, to } => {
                if let Some(&file) = self.live.get(from) {
                    let (from, to) = (from.clone(), to.clone());
                    self.change_name(NameChange::Move { from, to, file });
                }
            }
            Change::Remove { name } => self.change_name(NameChange::Remove { name: name.clone() }),
            Change::SyncDir => {
                self.durable = self.live.clone();
                self.unsynced.clear();
                self.forget_unnamed();
            }
        }
    }

    /// The disk with these names and contents, all of it durable.
    pub(super) fn after_sync(&self, names: Names, contents: BTreeMap<Inode, Vec<u8>>) -> Self {
        let mut image = Self {
            live: names.clone(),
            durable: names,
            unsynced: Vec::new(),
            ..self.clone()
        };
        for (inode, bytes) in contents {
            image.edit(inode, |file| file.bytes = bytes);
        }
        image.forget_unnamed();
        for file in image.files.values_mut() {
            (file.synced, file.pages_lost) = (file.bytes.len(), false);
        }
        image
    }

    fn create(&mut self, name: &str, mode: u32) {
        let (inode, file) = (
            self.next,
            File {
                mode,
                ..File::default()
            },
        );
        self.next += 1;
        self.files.insert(inode, file);
        self.change_name(NameChange::Put {
            name: name.to_owned(),
            file: inode,
        });
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.unsynced.push(change);
    }

    fn edit(&mut self, inode: Inode, edit: impl FnOnce(&mut File)) {
        if let Some(file) = self.files.get_mut(&inode) {
            edit(file);
        }
    }

    fn forget_unnamed(&mut self) {
        let (live, durable) = (&self.live, &self.durable);
        let named = |inode: &Inode| live.values().chain(durable.values()).any(|i| i == inode);
        self.files.retain(|inode, _| named(inode));
    }
}

// === impl File ===

impl File {
    fn sync(&mut self) {
        if !self.pages_lost {
            self.synced = self.bytes.len();
        }
    }
}

// === impl NameChange ===

impl NameChange {
    /// Applies the change, also to names that lack an earlier change: a moved file
    /// has only its new name.
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            Self::Put { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Move { from, to, file } => {
                names.remove(from);
                names.retain(|_, at| at != file);
                names.insert(to.clone(), *file);
            }
            Self::Remove { name } => {
                names.remove(name);
            }
        }
    }

    /// Whether a reader can see the change: no program reads temp files.
    pub(super) fn is_visible(&self) -> bool {
        match self {
            Self::Put { name, .. } | Self::Remove { name } => !is_temp_file(name),
            Self::Move { from, to, .. } => !is_temp_file(from) || !is_temp_file(to),
        }
    }
}

impl std::fmt::Display for NameChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Put { name, .. } => write!(f, "creation of {name}"),
            Self::Move { from, to, .. } => write!(f, "rename of {from} to {to}"),
            Self::Remove { name } => write!(f, "removal of {name}"),
        }
    }
}
