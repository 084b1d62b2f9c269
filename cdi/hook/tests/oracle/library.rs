//! Compatibility libraries: ELF files with NVIDIA's note and nothing else.

const SECTION: &str = ".note.cuda.fwd_compatibility";
const HEADER: usize = 64;

/// A 64-bit library with the note in a section.
pub(crate) fn with_note(text: &str) -> Vec<u8> {
    let note = note(text);
    let names = format!("\0{SECTION}\0.shstrtab\0");
    let names_at = HEADER + note.len();
    let table_at = (names_at + names.len()).next_multiple_of(8);
    let mut file = header(table_at);
    file.extend(&note);
    file.extend(names.as_bytes());
    file.resize(table_at, 0);
    file.extend([0; 64]);
    file.extend(section(1, 7, HEADER, note.len(), 4));
    file.extend(section(2 + SECTION.len(), 3, names_at, names.len(), 1));
    file
}

fn header(table_at: usize) -> Vec<u8> {
    let machine: u8 = if cfg!(target_arch = "aarch64") {
        183
    } else {
        62
    };
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(HEADER, 0);
    // A shared library, of the current version.
    (header[16], header[18], header[20]) = (3, machine, 1);
    header[40..48].copy_from_slice(&table_at.to_le_bytes());
    // Sizes of the headers, three sections, names in the last.
    (header[52], header[54], header[58], header[60], header[62]) = (64, 56, 64, 3, 2);
    header
}

fn section(name: usize, kind: u32, at: usize, len: usize, align: usize) -> Vec<u8> {
    let mut section = u32::try_from(name).unwrap().to_le_bytes().to_vec();
    section.extend(kind.to_le_bytes());
    for value in [0, 0, at, len, 0, align, 0] {
        section.extend(value.to_le_bytes());
    }
    section
}

fn note(text: &str) -> Vec<u8> {
    let owner = b"NVIDIA Corporation\0\0";
    let mut note = Vec::new();
    for number in [19, text.len() + 1, 0] {
        note.extend(u32::try_from(number).unwrap().to_le_bytes());
    }
    note.extend(owner);
    note.extend(text.as_bytes());
    note.push(0);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}
