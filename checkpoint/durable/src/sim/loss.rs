//! The possible disks after a power loss: each unsynced change may be there
//! completely, in part or not at all.

use std::collections::{BTreeMap, BTreeSet};

use super::image::{File, Image, Inode, Names};
use crate::name::is_temp_file;

/// Limit of unsynced changes of names: more than any sequence here makes. Each doubles
/// the number of states.
const MAX_UNSYNCED: usize = 12;
/// Limit of states at one moment: more than a test can check.
const MAX_STATES: usize = 1 << 14;

/// One disk that a power loss can leave.
pub(super) struct Loss {
    pub(super) image: Image,
    /// Its difference from what the process saw.
    pub(super) note: String,
}

/// A possible content of a file, and its difference; `None` if nothing is lost.
type Remains = (Vec<u8>, Option<String>);
type Contents = BTreeMap<Inode, Remains>;

/// The files that readers see: names, modes and bytes.
type Seen = BTreeMap<String, (u32, Vec<u8>)>;

/// Every distinct disk that a power loss can leave of `image`.
pub(super) fn losses(image: &Image) -> Vec<Loss> {
    let mut seen = BTreeSet::new();
    let mut losses = Vec::new();
    for (names, lost) in possible_names(image) {
        for contents in possible_contents(image, &names) {
            let note = note(&lost, &names, &contents);
            let bytes = contents
                .into_iter()
                .map(|(inode, remains)| (inode, remains.0));
            let disk = image.after_sync(names.clone(), bytes.collect());
            if seen.insert(visible(&disk)) {
                assert!(
                    losses.len() < MAX_STATES,
                    "more than {MAX_STATES} states after one step: too many to prove"
                );
                losses.push(Loss { image: disk, note });
            }
        }
    }
    losses
}

/// The disk after a power loss that undoes all unsynced changes.
pub(super) fn everything_unsynced(image: &Image) -> Image {
    let synced = |(inode, file): (&Inode, &File)| {
        let bytes = file.bytes.get(..file.synced).unwrap_or_default();
        (*inode, bytes.to_vec())
    };
    let contents = image.files.iter().map(synced).collect();
    image.after_sync(image.durable.clone(), contents)
}

/// The names after every subset of the unsynced changes, with the lost changes. Changes
/// that only affect temp files are always applied, since temp files are swept.
fn possible_names(image: &Image) -> Vec<(Names, Vec<String>)> {
    let visible = image.unsynced.iter().filter(|c| c.is_visible()).count();
    assert!(
        visible <= MAX_UNSYNCED,
        "{visible} names changed without an fsync of the directory, but the simulation can enumerate \
         at most {MAX_UNSYNCED}"
    );
    (0_usize..1 << visible)
        .rev()
        .map(|kept| {
            let mut names = image.durable.clone();
            let mut lost = Vec::new();
            let mut nth = 0;
            for change in &image.unsynced {
                let is_kept = !change.is_visible() || kept & (1 << nth) != 0;
                nth += usize::from(change.is_visible());
                if is_kept {
                    change.apply(&mut names);
                } else {
                    lost.push(change.to_string());
                }
            }
            (names, lost)
        })
        .collect()
}

/// Every combination of possible contents of the files that readers see.
fn possible_contents(image: &Image, names: &Names) -> Vec<Contents> {
    let mut all = vec![Contents::new()];
    for (_, inode) in names.iter().filter(|(name, _)| !is_temp_file(name)) {
        let Some(file) = image.files.get(inode).filter(|f| f.synced < f.bytes.len()) else {
            continue;
        };
        let remains = remains_of(file);
        assert!(
            all.len() * remains.len() <= MAX_STATES,
            "the unsynced files have more than {MAX_STATES} combinations, which cannot be enumerated"
        );
        all = all
            .iter()
            .flat_map(|known| {
                remains.iter().map(move |remains| {
                    let mut known = known.clone();
                    known.insert(*inode, remains.clone());
                    known
                })
            })
            .collect();
    }
    all
}

/// The possible contents of a file with an unsynced tail: without the tail, with all of
/// it, with its beginning, and with its beginning or its end in a file of full size.
/// Unwritten bytes read as zeros.
fn remains_of(file: &File) -> Vec<Remains> {
    let (synced, tail) = file.bytes.split_at(file.synced);
    let len = tail.len();
    let mut remains = vec![(file.bytes.clone(), None)];
    for cut in BTreeSet::from([0, 1.min(len), len / 2, len.saturating_sub(1)]) {
        let (begin, end) = tail.split_at(cut);
        let parts = [
            (begin.to_vec(), format!("cut after {cut} of {len} bytes")),
            (
                [begin, &vec![0; end.len()]].concat(),
                format!("zeros after {cut} of {len} bytes"),
            ),
            (
                [&vec![0; begin.len()], end].concat(),
                format!("zeros before byte {cut} of {len}"),
            ),
        ];
        for (bytes, how) in parts {
            remains.push(([synced, &bytes].concat(), Some(how)));
        }
    }
    remains
}

fn visible(image: &Image) -> Seen {
    let names = image.live.iter().filter(|(name, _)| !is_temp_file(name));
    names
        .filter_map(|(name, inode)| {
            let file = image.files.get(inode)?;
            Some((name.clone(), (file.mode, file.bytes.clone())))
        })
        .collect()
}

fn note(lost: &[String], names: &Names, contents: &Contents) -> String {
    let lost = lost.iter().map(|change| format!("without the {change}"));
    let torn = names.iter().filter_map(|(name, inode)| {
        let how = contents.get(inode)?.1.as_ref()?;
        Some(format!("{name} with {how}"))
    });
    lost.chain(torn).collect::<Vec<_>>().join(", ")
}
