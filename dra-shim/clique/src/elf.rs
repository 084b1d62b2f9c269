//! Whether a file is a whole shared library that this process can load.
//!
//! The dynamic loader maps what the headers announce and trusts that it is
//! there: a library that is still being copied kills the process (SIGBUS).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::root::Reason;

/// Offsets of the ELF header and of a program header (gABI, figures 4-3 and 5-1),
/// for a class of 64 bits, which is all that NVIDIA's driver is built for.
const HEADER_LEN: usize = 64;
const TYPE_AT: usize = 16;
const MACHINE_AT: usize = 18;
const PROGRAM_HEADERS_AT: usize = 32;
const PROGRAM_HEADER_LEN_AT: usize = 54;
const PROGRAM_HEADER_COUNT_AT: usize = 56;
const PROGRAM_HEADER_LEN: usize = 56;
const SEGMENT_AT: usize = 8;
const SEGMENT_LEN_AT: usize = 32;

const MAGIC: [u8; 4] = *b"\x7fELF";
const TYPE_SHARED: u64 = 3;
const SEGMENT_LOAD: u64 = 1;
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;

/// `e_machine` and the name of the architecture, of those whose libraries lie
/// around on hosts with a driver.
const MACHINES: [(u64, &str); 4] = [(3, "x86"), (40, "arm"), (62, "x86_64"), (183, "aarch64")];

/// Ok if the loader may be trusted with the file.
pub(crate) fn loadable(path: &Path) -> Result<(), Reason> {
    let unreadable = |e: io::Error| Reason::Unreadable(e.kind());
    let file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut header = [0; HEADER_LEN];
    let announced = match file.read_exact_at(&mut header, 0) {
        Ok(()) => judge(&header)?,
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(too_short(&header, size)),
        Err(e) => return Err(unreadable(e)),
    };
    for index in 0..announced.count {
        let at = announced.at.saturating_add(index * announced.len);
        reaches(at.saturating_add(PROGRAM_HEADER_LEN as u64), size)?;
        let mut segment = [0; PROGRAM_HEADER_LEN];
        file.read_exact_at(&mut segment, at).map_err(unreadable)?;
        if number::<4>(&segment, 0) == SEGMENT_LOAD {
            let from = number::<8>(&segment, SEGMENT_AT);
            let len = number::<8>(&segment, SEGMENT_LEN_AT);
            reaches(from.saturating_add(len), size)?;
        }
    }
    Ok(())
}

fn reaches(needed: u64, size: u64) -> Result<(), Reason> {
    if needed > size {
        return Err(Reason::CutShort { size, needed });
    }
    Ok(())
}

/// Where the program headers are.
struct ProgramHeaders {
    at: u64,
    len: u64,
    count: u64,
}

fn judge(header: &[u8; HEADER_LEN]) -> Result<ProgramHeaders, Reason> {
    let [m0, m1, m2, m3, class, order, ..] = *header;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(Reason::NotALibrary);
    }
    let machine = number::<2>(header, MACHINE_AT);
    let expected = MACHINES
        .iter()
        .find(|(_, name)| *name == std::env::consts::ARCH)
        .map(|(machine, _)| *machine);
    let foreign = expected.is_some_and(|expected| machine != expected);
    if class != CLASS_64 || order != LITTLE_ENDIAN || foreign {
        return Err(Reason::WrongArchitecture {
            found: architecture(class, machine),
        });
    }
    if number::<2>(header, TYPE_AT) != TYPE_SHARED {
        return Err(Reason::NotALibrary);
    }
    Ok(ProgramHeaders {
        at: number::<8>(header, PROGRAM_HEADERS_AT),
        len: number::<2>(header, PROGRAM_HEADER_LEN_AT),
        count: number::<2>(header, PROGRAM_HEADER_COUNT_AT),
    })
}

/// A file that ends within its header: one that is being written if it begins
/// like a library.
fn too_short(header: &[u8; HEADER_LEN], size: u64) -> Reason {
    if size == 0 || header.starts_with(&MAGIC) {
        return Reason::CutShort {
            size,
            needed: HEADER_LEN as u64,
        };
    }
    Reason::NotALibrary
}

fn architecture(class: u8, machine: u64) -> String {
    let bits = if class == CLASS_64 { 64 } else { 32 };
    let known = MACHINES.iter().find(|(it, _)| *it == machine);
    match known {
        Some((_, name)) => format!("{name}, {bits} bit"),
        None => format!("machine {machine}, {bits} bit"),
    }
}

/// A little-endian number of `N` bytes; 0 where there are not as many.
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

    /// The header of a library of this machine, which announces no segment.
    pub(crate) fn a_library() -> Vec<u8> {
        let mut header = vec![0; HEADER_LEN];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = CLASS_64;
        header[5] = LITTLE_ENDIAN;
        header[TYPE_AT] = 3;
        let machine = MACHINES.iter().find(|it| it.1 == std::env::consts::ARCH);
        header[MACHINE_AT] = u8::try_from(machine.unwrap().0).unwrap();
        header
    }

    fn said(bytes: &[u8]) -> Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib");
        fs::write(&path, bytes).unwrap();
        loadable(&path).map_err(|reason| reason.to_string())
    }

    fn refused(bytes: &[u8], why: &str) {
        assert_eq!(said(bytes), Err(why.to_owned()));
    }

    #[test]
    fn a_library_of_this_machine_passes() {
        assert_eq!(said(&a_library()), Ok(()));
        // A real one: this machine's own C library, as this process has it mapped.
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.split_whitespace().find(|it| it.contains("libc.so"));
        assert_eq!(loadable(Path::new(libc.unwrap())), Ok(()));
    }

    #[test]
    fn what_is_no_library_is_told_from_one_of_another_machine() {
        refused(b"#!/bin/sh\n", "is not a shared library");
        refused(&[b'#'; 200], "is not a shared library");
        let mut program = a_library();
        program[TYPE_AT] = 2;
        refused(&program, "is not a shared library");
        let mut foreign = a_library();
        foreign[MACHINE_AT] = 21;
        refused(&foreign, "is for another architecture (machine 21, 64 bit)");
        let mut narrow = a_library();
        narrow[4] = 1;
        narrow[MACHINE_AT] = 3;
        refused(&narrow, "is for another architecture (x86, 32 bit)");
        let mut swapped = a_library();
        swapped[5] = 2;
        assert!(said(&swapped).is_err());
    }

    #[test]
    fn a_library_that_is_being_copied_is_cut_short_wherever_it_ends() {
        refused(b"", "is cut short: 0 of at least 64 bytes");
        refused(b"\x7fELF", "is cut short: 4 of at least 64 bytes");
        let mut library = a_library();
        library[PROGRAM_HEADERS_AT] = 64;
        library[PROGRAM_HEADER_LEN_AT] = 56;
        library[PROGRAM_HEADER_COUNT_AT] = 1;
        refused(&library, "is cut short: 64 of at least 120 bytes");
        library.extend([0; 56]);
        assert_eq!(said(&library), Ok(()), "a segment that is not loaded");
        library[64] = 1;
        library[64 + SEGMENT_LEN_AT] = 130;
        refused(&library, "is cut short: 120 of at least 130 bytes");
        library.extend([0; 10]);
        assert_eq!(said(&library), Ok(()));
    }

    #[test]
    fn garbage_in_the_headers_is_refused_and_asks_for_nothing() {
        let mut library = a_library();
        library[PROGRAM_HEADERS_AT..PROGRAM_HEADERS_AT + 8].fill(0xff);
        library[PROGRAM_HEADER_LEN_AT..PROGRAM_HEADER_LEN_AT + 4].fill(0xff);
        assert!(said(&library).unwrap_err().starts_with("is cut short"));
    }
}
