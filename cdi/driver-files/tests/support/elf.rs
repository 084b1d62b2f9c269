//! The smallest libraries that have a SONAME, for the dynamic loader (segments) and for Go (sections).

pub(crate) const X86_64: u16 = 62;

const CLASS_64: u8 = 2;
const CLASS_32: u8 = 1;
const HEADER_LEN: usize = 64;
const SEGMENT_LEN: usize = 56;
const SECTION_LEN: usize = 64;
const SECTION_NAMES: &[u8] = b"\0.dynstr\0.dynamic\0.shstrtab\0";

/// A library for a machine (`e_machine`).
pub(crate) fn library(machine: u16, soname: Option<&str>) -> Vec<u8> {
    let strings_at = HEADER_LEN + 2 * SEGMENT_LEN;
    let strings = format!("\0{}\0", soname.unwrap_or_default()).into_bytes();
    let dynamic_at = (strings_at + strings.len()).next_multiple_of(8);
    let mut tags = vec![(5, strings_at), (10, strings.len())];
    tags.extend(soname.map(|_| (14, 1)));
    tags.push((0, 0));
    let dynamic: Vec<u8> = numbers(tags.iter().flat_map(|(tag, value)| [*tag, *value]));
    let names_at = dynamic_at + dynamic.len();
    let sections_at = (names_at + SECTION_NAMES.len()).next_multiple_of(8);
    let len = sections_at + 4 * SECTION_LEN;

    let mut bytes = header(machine, sections_at);
    bytes.extend(segment(1, 0, len));
    bytes.extend(segment(2, dynamic_at, dynamic.len()));
    bytes.extend(&strings);
    bytes.resize(dynamic_at, 0);
    bytes.extend(&dynamic);
    bytes.extend(SECTION_NAMES);
    bytes.resize(sections_at, 0);
    bytes.extend(section(0, 0, 0, 0, 0));
    bytes.extend(section(1, 3, strings_at, strings.len(), 0));
    bytes.extend(section(9, 6, dynamic_at, dynamic.len(), 1));
    bytes.extend(section(18, 3, names_at, SECTION_NAMES.len(), 0));
    bytes
}

/// A library with the class of 32-bit ones.
pub(crate) fn narrow_library() -> Vec<u8> {
    let mut bytes = library(3, None);
    bytes.splice(4..5, [CLASS_32]);
    bytes
}

fn header(machine: u16, sections_at: usize) -> Vec<u8> {
    let mut bytes = b"\x7fELF".to_vec();
    bytes.extend([CLASS_64, 1, 1]);
    bytes.resize(16, 0);
    bytes.extend(3_u16.to_le_bytes());
    bytes.extend(machine.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(numbers([0, HEADER_LEN, sections_at]));
    bytes.extend(0_u32.to_le_bytes());
    let sizes = [HEADER_LEN, SEGMENT_LEN, 2, SECTION_LEN, 4, 3];
    bytes.extend(
        sizes
            .iter()
            .flat_map(|it| u16::try_from(*it).unwrap().to_le_bytes()),
    );
    bytes
}

fn segment(kind: u32, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = [kind, 4].map(u32::to_le_bytes).concat();
    bytes.extend(numbers([at, at, at, len, len, 8]));
    bytes
}

fn section(name: u32, kind: u32, at: usize, len: usize, link: u32) -> Vec<u8> {
    let mut bytes = [name, kind].map(u32::to_le_bytes).concat();
    bytes.extend(numbers([0, at, at, len]));
    bytes.extend([link, 0].map(u32::to_le_bytes).concat());
    bytes.extend(numbers([1, if kind == 6 { 16 } else { 0 }]));
    bytes
}

fn numbers(values: impl IntoIterator<Item = usize>) -> Vec<u8> {
    let values = values.into_iter();
    values.flat_map(|it| (it as u64).to_le_bytes()).collect()
}
