//! Reads ELF files of a driver: whether a library is complete and for this machine, a program's loader, a
//! library's SONAME and notes.
//!
//! The dynamic loader maps the segments in the headers without checking the file's size. So
//! loading a library that is still being copied kills the process (SIGBUS).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::not_found::RejectReason;

// Offsets in the ELF header and in a program header (gABI, figures 4-3 and 5-1) of the 64-bit
// class: NVIDIA's driver has no other.
const HEADER_LEN: usize = 64;
const TYPE_AT: usize = 16;
const MACHINE_AT: usize = 18;
const PROGRAM_HEADERS_AT: usize = 32;
const SECTION_HEADERS_AT: usize = 40;
const PROGRAM_HEADER_LEN_AT: usize = 54;
const PROGRAM_HEADER_COUNT_AT: usize = 56;
const PROGRAM_HEADER_LEN: usize = 56;
const SEGMENT_AT: usize = 8;
const SEGMENT_ADDRESS_AT: usize = 16;
const SEGMENT_LEN_AT: usize = 32;
const SECTION_HEADER_LEN_AT: usize = 58;
const SECTION_HEADER_COUNT_AT: usize = 60;
// Offsets in a section header (gABI, figure 4-8).
const SECTION_HEADER_LEN: usize = 64;
const SECTION_TYPE_AT: usize = 4;
const SECTION_OFFSET_AT: usize = 24;
const SECTION_LEN_AT: usize = 32;

// Entries of the dynamic section (gABI, figure 5-9): a tag and a value of 8 bytes each.
const DYNAMIC_ENTRY_LEN: usize = 16;
const DYNAMIC_STRINGS: u64 = 5;
const DYNAMIC_SONAME: u64 = 14;

/// Maximum length of a dynamic section and of all notes: far more than any of the driver's.
const MAX_SECTION: u64 = 1 << 20;

/// Maximum length of a path on Linux (`PATH_MAX`).
const MAX_PATH: u64 = 4096;

const MAGIC: [u8; 4] = *b"\x7fELF";
const TYPE_SHARED: u64 = 3;
const SEGMENT_LOAD: u64 = 1;
const SEGMENT_DYNAMIC: u64 = 2;
const SEGMENT_INTERPRETER: u64 = 3;
const SEGMENT_NOTE: u64 = 4;
const SECTION_NOTE: u64 = 7;
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;

/// `e_machine` and architecture name of libraries that are likely on a host with a driver.
const MACHINES: [(u64, &str); 4] = [(3, "x86"), (40, "arm"), (62, "x86_64"), (183, "aarch64")];

/// Checks that the dynamic loader can load the file without risk to this process.
pub(crate) fn check_loadable(path: &Path) -> Result<(), RejectReason> {
    check(path, is_own_machine).map(drop)
}

/// Checks that the file is a complete 64-bit library, for this machine or another one, and returns the number of
/// its machine (`e_machine`): 62 for x86-64, 183 for 64-bit ARM.
///
/// # Errors
///
/// [`WrongArchitecture`](RejectReason::WrongArchitecture) for 32-bit libraries, otherwise what is wrong with the file.
pub fn check_complete(path: &Path) -> Result<u64, RejectReason> {
    check(path, |_| true)
}

fn check(path: &Path, accepts_machine: fn(u64) -> bool) -> Result<u64, RejectReason> {
    let unreadable = |e: io::Error| RejectReason::Unreadable(e.kind());
    let file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut header = [0; HEADER_LEN];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(too_short(&header, size)),
        Err(e) => return Err(unreadable(e)),
    }
    let headers = program_headers(&header, accepts_machine)?;
    for index in 0..headers.count {
        let at = headers.at.saturating_add(index * headers.len);
        check_size(at.saturating_add(PROGRAM_HEADER_LEN as u64), size)?;
        let mut segment = [0; PROGRAM_HEADER_LEN];
        file.read_exact_at(&mut segment, at).map_err(unreadable)?;
        if number::<4>(&segment, 0) == SEGMENT_LOAD {
            let from = number::<8>(&segment, SEGMENT_AT);
            let len = number::<8>(&segment, SEGMENT_LEN_AT);
            check_size(from.saturating_add(len), size)?;
        }
    }
    Ok(number::<2>(&header, MACHINE_AT))
}

/// A note of an ELF file (gABI, figure 5-3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The owner's name, without the terminating NUL.
    pub name: String,
    /// The number that the owner gave this kind of note.
    pub kind: u32,
    /// The content.
    pub content: Vec<u8>,
}

/// Reads a program's loader (`PT_INTERP`). `None` for a program without one, and for files that are not
/// 64-bit ELF programs.
pub(crate) fn interpreter(path: &Path) -> io::Result<Option<PathBuf>> {
    let Some(elf) = Elf::open(path)? else {
        return Ok(None);
    };
    let Some(segment) = elf.segment(SEGMENT_INTERPRETER)? else {
        return Ok(None);
    };
    let name = elf.text(segment.at, segment.len.min(MAX_PATH))?;
    Ok(Some(PathBuf::from(OsStr::from_bytes(&name))))
}

/// Reads a library's SONAME: the name by which programs that are linked to it load it. `None` for a library
/// without one, and for files that are not 64-bit ELF files.
///
/// # Errors
///
/// The file cannot be read, or ends within what its headers announce.
pub fn soname(path: &Path) -> io::Result<Option<String>> {
    let Some(elf) = Elf::open(path)? else {
        return Ok(None);
    };
    let Some(dynamic) = elf.segment(SEGMENT_DYNAMIC)? else {
        return Ok(None);
    };
    let entries = elf.read(dynamic.at, dynamic.len)?;
    let value_of = |tag| {
        let mut entries = entries.chunks_exact(DYNAMIC_ENTRY_LEN);
        let entry = entries.find(|entry| number::<8>(entry, 0) == tag)?;
        Some(number::<8>(entry, 8))
    };
    let (Some(strings), Some(name)) = (value_of(DYNAMIC_STRINGS), value_of(DYNAMIC_SONAME)) else {
        return Ok(None);
    };
    let Some(at) = elf.offset_of(strings.saturating_add(name))? else {
        return Ok(None);
    };
    let name = elf.text(at, MAX_PATH)?;
    Ok(String::from_utf8(name).ok().filter(|name| !name.is_empty()))
}

/// Reads the notes of a library or program in the file's order: of its segments (`PT_NOTE`), and if it has none, of
/// its sections (`SHT_NOTE`). Empty for files that are not 64-bit ELF files; a malformed note ends its segment.
///
/// # Errors
///
/// The file cannot be read, or ends within what its headers announce.
pub fn notes(path: &Path) -> io::Result<Vec<Note>> {
    let Some(elf) = Elf::open(path)? else {
        return Ok(Vec::new());
    };
    let mut ranges = elf.note_segments()?;
    if ranges.is_empty() {
        ranges = elf.note_sections()?;
    }
    let mut notes = Vec::new();
    // The headers of a hostile file may name the same bytes thousands of times.
    let mut unread = MAX_SECTION;
    for range in ranges {
        let bytes = elf.read(range.at, range.len.min(unread))?;
        unread -= bytes.len() as u64;
        let mut rest = bytes.as_slice();
        while let Some((note, after)) = first_note(rest) {
            notes.push(note);
            rest = after;
        }
    }
    Ok(notes)
}

/// Splits off the first note. Name and content are padded to 4 bytes.
fn first_note(bytes: &[u8]) -> Option<(Note, &[u8])> {
    let (header, rest) = bytes.split_at_checked(12)?;
    let length = |at| usize::try_from(number::<4>(header, at)).ok();
    let (name_len, content_len) = (length(0)?, length(4)?);
    let (name, rest) = rest.split_at_checked(name_len)?;
    let rest = rest.get(name_len.next_multiple_of(4) - name_len..)?;
    let (content, rest) = rest.split_at_checked(content_len)?;
    let padding = content_len.next_multiple_of(4) - content_len;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let note = Note {
        name: String::from_utf8_lossy(name).into_owned(),
        kind: u32::try_from(number::<4>(header, 8)).ok()?,
        content: content.to_vec(),
    };
    Some((note, rest.get(padding..).unwrap_or_default()))
}

/// An open 64-bit ELF file of any machine.
struct Elf {
    file: File,
    headers: HeaderTable,
    sections: HeaderTable,
}

/// A part of the file.
struct Range {
    at: u64,
    len: u64,
}

/// A program header.
struct Segment {
    kind: u64,
    at: u64,
    address: u64,
    len: u64,
}

// === impl Elf ===

impl Elf {
    /// `None` if the file is not a 64-bit ELF file.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let mut header = [0; HEADER_LEN];
        match file.read_exact_at(&mut header, 0) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => return Err(e),
        }
        let [m0, m1, m2, m3, class, order, ..] = header;
        let is_elf = [m0, m1, m2, m3] == MAGIC && class == CLASS_64 && order == LITTLE_ENDIAN;
        Ok(is_elf.then(|| Self {
            file,
            headers: HeaderTable::of_segments(&header),
            sections: HeaderTable::of_sections(&header),
        }))
    }

    fn note_segments(&self) -> io::Result<Vec<Range>> {
        let mut found = Vec::new();
        for index in 0..self.headers.count {
            let Segment { kind, at, len, .. } = self.header(index)?;
            if kind == SEGMENT_NOTE {
                found.push(Range { at, len });
            }
        }
        Ok(found)
    }

    fn note_sections(&self) -> io::Result<Vec<Range>> {
        let mut found = Vec::new();
        for index in 0..self.sections.count {
            let at = self.sections.at.saturating_add(index * self.sections.len);
            let mut header = [0; SECTION_HEADER_LEN];
            self.file.read_exact_at(&mut header, at)?;
            if number::<4>(&header, SECTION_TYPE_AT) == SECTION_NOTE {
                found.push(Range {
                    at: number::<8>(&header, SECTION_OFFSET_AT),
                    len: number::<8>(&header, SECTION_LEN_AT),
                });
            }
        }
        Ok(found)
    }

    fn header(&self, index: u64) -> io::Result<Segment> {
        let at = self.headers.at.saturating_add(index * self.headers.len);
        let mut header = [0; PROGRAM_HEADER_LEN];
        self.file.read_exact_at(&mut header, at)?;
        Ok(Segment {
            kind: number::<4>(&header, 0),
            at: number::<8>(&header, SEGMENT_AT),
            address: number::<8>(&header, SEGMENT_ADDRESS_AT),
            len: number::<8>(&header, SEGMENT_LEN_AT),
        })
    }

    /// The first segment of a kind.
    fn segment(&self, kind: u64) -> io::Result<Option<Segment>> {
        for index in 0..self.headers.count {
            let segment = self.header(index)?;
            if segment.kind == kind {
                return Ok(Some(segment));
            }
        }
        Ok(None)
    }

    /// The position in the file of what is loaded at `address`.
    fn offset_of(&self, address: u64) -> io::Result<Option<u64>> {
        for index in 0..self.headers.count {
            let segment = self.header(index)?;
            let inside = address.checked_sub(segment.address);
            if let Some(inside) = inside.filter(|inside| *inside < segment.len)
                && segment.kind == SEGMENT_LOAD
            {
                return Ok(Some(segment.at.saturating_add(inside)));
            }
        }
        Ok(None)
    }

    fn read(&self, at: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len.min(MAX_SECTION)).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// The bytes at `at` up to a NUL, the end of the file or `max` bytes.
    fn text(&self, at: u64, max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(max).unwrap_or(0)];
        let len = self.file.read_at(&mut bytes, at)?;
        bytes.truncate(len);
        let end = bytes.iter().position(|byte| *byte == 0);
        bytes.truncate(end.unwrap_or(len));
        Ok(bytes)
    }
}

fn check_size(needed: u64, size: u64) -> Result<(), RejectReason> {
    if needed > size {
        return Err(RejectReason::Truncated { size, needed });
    }
    Ok(())
}

/// The position of the program headers or section headers in the file.
struct HeaderTable {
    at: u64,
    len: u64,
    count: u64,
}

fn is_own_machine(machine: u64) -> bool {
    let own = MACHINES
        .iter()
        .find(|(_, name)| *name == std::env::consts::ARCH);
    own.is_none_or(|(own, _)| machine == *own)
}

fn program_headers(
    header: &[u8; HEADER_LEN],
    accepts_machine: fn(u64) -> bool,
) -> Result<HeaderTable, RejectReason> {
    let [m0, m1, m2, m3, class, order, ..] = *header;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(RejectReason::NotALibrary);
    }
    let machine = number::<2>(header, MACHINE_AT);
    if class != CLASS_64 || order != LITTLE_ENDIAN || !accepts_machine(machine) {
        return Err(RejectReason::WrongArchitecture {
            found: architecture(class, machine),
        });
    }
    if number::<2>(header, TYPE_AT) != TYPE_SHARED {
        return Err(RejectReason::NotALibrary);
    }
    Ok(HeaderTable::of_segments(header))
}

impl HeaderTable {
    fn of_segments(header: &[u8; HEADER_LEN]) -> Self {
        Self {
            at: number::<8>(header, PROGRAM_HEADERS_AT),
            len: number::<2>(header, PROGRAM_HEADER_LEN_AT),
            count: number::<2>(header, PROGRAM_HEADER_COUNT_AT),
        }
    }

    fn of_sections(header: &[u8; HEADER_LEN]) -> Self {
        Self {
            at: number::<8>(header, SECTION_HEADERS_AT),
            len: number::<2>(header, SECTION_HEADER_LEN_AT),
            count: number::<2>(header, SECTION_HEADER_COUNT_AT),
        }
    }
}

/// The reason for rejecting a file that ends within its header. A file that begins like a
/// library is probably still being written.
fn too_short(header: &[u8; HEADER_LEN], size: u64) -> RejectReason {
    if size == 0 || header.starts_with(&MAGIC) {
        return RejectReason::Truncated {
            size,
            needed: HEADER_LEN as u64,
        };
    }
    RejectReason::NotALibrary
}

fn architecture(class: u8, machine: u64) -> String {
    let bits = if class == CLASS_64 { 64 } else { 32 };
    let known = MACHINES.iter().find(|(number, _)| *number == machine);
    match known {
        Some((_, name)) => format!("{name}, {bits} bit"),
        None => format!("machine {machine}, {bits} bit"),
    }
}

/// Reads the little-endian number of `N` bytes at `at`; 0 if `bytes` is too short.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..at + N).unwrap_or_default();
    field
        .iter()
        .rev()
        .fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;

    /// The header of a library for this machine, without segments.
    pub(crate) fn minimal_library() -> Vec<u8> {
        let mut header = vec![0; HEADER_LEN];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = CLASS_64;
        header[5] = LITTLE_ENDIAN;
        header[TYPE_AT] = 3;
        let machine = MACHINES.iter().find(|it| it.1 == std::env::consts::ARCH);
        header[MACHINE_AT] = u8::try_from(machine.unwrap().0).unwrap();
        header
    }

    /// A real library: the C library that this process has mapped.
    fn libc() -> PathBuf {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.split_whitespace().find(|it| it.contains("libc.so"));
        PathBuf::from(libc.unwrap())
    }

    fn checked<T>(
        bytes: &[u8],
        check: impl Fn(&Path) -> Result<T, RejectReason>,
    ) -> Result<T, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib");
        fs::write(&path, bytes).unwrap();
        check(&path).map_err(|reason| reason.to_string())
    }

    fn check(bytes: &[u8]) -> Result<(), String> {
        checked(bytes, check_loadable)
    }

    fn complete(bytes: &[u8]) -> Result<u64, String> {
        checked(bytes, check_complete)
    }

    fn assert_rejected(bytes: &[u8], reason: &str) {
        assert_eq!(check(bytes), Err(reason.to_owned()));
    }

    #[test]
    fn a_library_of_this_machine_passes() {
        assert_eq!(check(&minimal_library()), Ok(()));
        assert_eq!(check_loadable(&libc()), Ok(()));
    }

    #[test]
    fn the_c_library_has_its_soname_and_a_build_id() {
        assert_eq!(soname(&libc()).unwrap().as_deref(), Some("libc.so.6"));
        let notes = notes(&libc()).unwrap();
        let build_id = notes.iter().find(|it| it.name == "GNU" && it.kind == 3);
        assert_eq!(build_id.map(|it| it.content.len()), Some(20), "{notes:?}");
    }

    #[test]
    fn the_notes_of_a_file_without_segments_are_those_of_its_sections() {
        let mut library = minimal_library();
        library[SECTION_HEADERS_AT] = 64;
        library[SECTION_HEADER_LEN_AT] = 64;
        library[SECTION_HEADER_COUNT_AT] = 1;
        let mut section = vec![0; SECTION_HEADER_LEN];
        section[SECTION_TYPE_AT] = 7;
        section[SECTION_OFFSET_AT] = 128;
        section[SECTION_LEN_AT] = 24;
        library.extend(section);
        library.extend(*b"\x04\0\0\0\x05\0\0\0\x09\0\0\0own\0five!\0\0\0");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib.so");
        fs::write(&path, library).unwrap();
        let note = Note {
            name: "own".to_owned(),
            kind: 9,
            content: b"five!".to_vec(),
        };
        assert_eq!(notes(&path).unwrap(), [note]);
    }

    #[test]
    fn a_script_and_a_library_without_segments_have_neither_soname_nor_notes() {
        let dir = tempfile::tempdir().unwrap();
        for bytes in [b"#!/bin/sh\n".to_vec(), minimal_library()] {
            let path = dir.path().join("file");
            fs::write(&path, bytes).unwrap();
            assert_eq!(soname(&path).unwrap(), None);
            assert_eq!(notes(&path).unwrap(), []);
        }
    }

    #[test]
    fn a_damaged_header_is_an_error_or_absent_and_never_a_panic() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib.so");
        let whole = fs::read(libc()).unwrap();
        let beginning = &whole[..whole.len().min(0x4000)];
        for at in 0..0x400 {
            for value in [0x00, 0x7f, 0xff] {
                let mut damaged = beginning.to_vec();
                damaged[at] = value;
                fs::write(&path, &damaged).unwrap();
                let (_, _, _) = (soname(&path), notes(&path), interpreter(&path));
            }
        }
    }

    #[test]
    fn a_file_that_is_not_a_library_differs_from_a_library_for_another_machine() {
        assert_rejected(b"#!/bin/sh\n", "is not a shared library");
        assert_rejected(&[b'#'; 200], "is not a shared library");
        let mut program = minimal_library();
        program[TYPE_AT] = 2;
        assert_rejected(&program, "is not a shared library");
        let mut foreign = minimal_library();
        foreign[MACHINE_AT] = 21;
        assert_rejected(&foreign, "is for another architecture (machine 21, 64 bit)");
        assert_eq!(complete(&foreign), Ok(21));
        let mut narrow = minimal_library();
        narrow[4] = 1;
        narrow[MACHINE_AT] = 3;
        assert_rejected(&narrow, "is for another architecture (x86, 32 bit)");
        assert!(complete(&narrow).is_err());
        let mut swapped = minimal_library();
        swapped[5] = 2;
        assert!(check(&swapped).is_err());
    }

    #[test]
    fn a_partly_copied_library_is_truncated_at_any_length() {
        assert_rejected(b"", "is truncated: 0 of at least 64 bytes");
        assert_rejected(b"\x7fELF", "is truncated: 4 of at least 64 bytes");
        let mut library = minimal_library();
        library[PROGRAM_HEADERS_AT] = 64;
        library[PROGRAM_HEADER_LEN_AT] = 56;
        library[PROGRAM_HEADER_COUNT_AT] = 1;
        assert_rejected(&library, "is truncated: 64 of at least 120 bytes");
        library.extend([0; 56]);
        assert_eq!(check(&library), Ok(()), "a segment that is not loaded");
        library[64] = 1;
        library[64 + SEGMENT_LEN_AT] = 130;
        assert_rejected(&library, "is truncated: 120 of at least 130 bytes");
        library.extend([0; 10]);
        assert_eq!(check(&library), Ok(()));
    }

    #[test]
    fn garbage_in_the_headers_is_rejected_without_allocating_for_it() {
        let mut library = minimal_library();
        library[PROGRAM_HEADERS_AT..PROGRAM_HEADERS_AT + 8].fill(0xff);
        library[PROGRAM_HEADER_LEN_AT..PROGRAM_HEADER_LEN_AT + 4].fill(0xff);
        assert!(check(&library).unwrap_err().starts_with("is truncated"));
    }
}
