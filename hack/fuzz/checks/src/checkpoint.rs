use compute_domain_node::DeviceGroup;
use dra_checkpoint::{Checkpoint, Damaged, FilePart, Mismatch, Survivors};

/// Reading never panics; what was read or saved is written, read back as the
/// same, and written as the same again.
///
/// Checksums would keep a fuzzer out of all that is behind them: the bytes are
/// also looked at with the checksums that they should have.
///
/// # Panics
///
/// If one of that does not hold.
pub fn checkpoint(bytes: &[u8]) {
    look_at(bytes);
    let mut sealed = bytes.to_vec();
    for part in [FilePart::V1, FilePart::V2] {
        if let Some(better) = seal(&sealed, part) {
            sealed = better;
        }
    }
    if sealed != bytes {
        look_at(&sealed);
    }
}

fn look_at(bytes: &[u8]) {
    match Checkpoint::<DeviceGroup>::decode(bytes) {
        Ok(read) => can_be_kept(&read),
        Err(damaged) => is_honest(&damaged),
    }
}

/// The bytes with this part's checksum put right; `None` if it is right or
/// cannot be found.
fn seal(bytes: &[u8], part: FilePart) -> Option<Vec<u8>> {
    let wrong = mismatch(bytes, part)?;
    let stored = wrong.stored?.to_string();
    let starts = (0..bytes.len()).filter(|&at| starts_with(bytes, at, stored.as_bytes()));
    // Other numbers may look the same: few of them are tried.
    starts.take(4).find_map(|at| {
        let (head, tail) = bytes.split_at_checked(at)?;
        let tail = tail.get(stored.len()..)?;
        let candidate = [head, wrong.computed.to_string().as_bytes(), tail].concat();
        mismatch(&candidate, part).is_none().then_some(candidate)
    })
}

fn starts_with(bytes: &[u8], at: usize, text: &[u8]) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.starts_with(text))
}

fn mismatch(bytes: &[u8], part: FilePart) -> Option<Mismatch> {
    let damaged = Checkpoint::<DeviceGroup>::decode(bytes).err()?;
    damaged.mismatches.iter().copied().find(|m| m.part == part)
}

fn is_honest(damaged: &Damaged<DeviceGroup>) {
    let saved = &damaged.saved;
    assert!(
        damaged.survivors != Survivors::None || saved.claims().next().is_none(),
        "claims survive where none do"
    );
    can_be_kept(saved);
}

#[expect(
    clippy::expect_used,
    reason = "a check of a fuzzer panics when it fails"
)]
fn can_be_kept(read: &Checkpoint<DeviceGroup>) {
    let written = read.encode().expect("what was read can be written");
    assert!(
        is_as_go_lays_out(&written),
        "Go lays the text out in another way, and takes its checksum of that"
    );
    let again = Checkpoint::<DeviceGroup>::decode(&written).expect("what was written can be read");
    assert!(
        read.claims()
            .map(|(uid, _)| uid)
            .eq(again.claims().map(|(uid, _)| uid)),
        "a claim was lost or invented"
    );
    assert_eq!(read.boot_id(), again.boot_id());
    let rewritten = again.encode().expect("what was read can be written");
    assert!(written == rewritten, "each rewrite changes the file");
}

/// No white space but in strings, and none of the five characters in strings
/// that Go escapes.
fn is_as_go_lays_out(text: &[u8]) -> bool {
    let mut in_string = false;
    let mut after_backslash = false;
    for byte in text {
        if matches!(byte, b'<' | b'>' | b'&') || (!in_string && byte.is_ascii_whitespace()) {
            return false;
        }
        let is_quote = *byte == b'"' && !after_backslash;
        in_string ^= is_quote;
        after_backslash = in_string && *byte == b'\\' && !after_backslash;
    }
    let separators = ["\u{2028}".as_bytes(), "\u{2029}".as_bytes()];
    !text.windows(3).any(|bytes| separators.contains(&bytes))
}
