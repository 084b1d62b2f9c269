use compute_domain_node::DeviceGroup;
use dra_checkpoint::{Checkpoint, Damaged, FilePart, Mismatch, Survivors};

/// Checks that reading never panics, and that a read or recovered checkpoint can be
/// written and read back unchanged, and written again as the same bytes.
///
/// With wrong checksums, a fuzzer would not reach the code after their check: the
/// bytes are also checked with corrected checksums.
///
/// # Panics
///
/// If one of these properties does not hold.
pub fn checkpoint(bytes: &[u8]) {
    check_bytes(bytes);
    let mut sealed = bytes.to_vec();
    for part in [FilePart::V1, FilePart::V2] {
        if let Some(better) = seal(&sealed, part) {
            sealed = better;
        }
    }
    if sealed != bytes {
        check_bytes(&sealed);
    }
}

fn check_bytes(bytes: &[u8]) {
    match Checkpoint::<DeviceGroup>::decode(bytes) {
        Ok(read) => can_be_kept(&read),
        Err(damaged) => check_error(&damaged),
    }
}

/// The bytes with this part's checksum corrected; `None` if it is correct or not
/// found.
fn seal(bytes: &[u8], part: FilePart) -> Option<Vec<u8>> {
    let wrong = mismatch(bytes, part)?;
    let stored = wrong.stored?.to_string();
    let starts = (0..bytes.len()).filter(|&at| starts_with(bytes, at, stored.as_bytes()));
    // Other numbers may match, too: it tries only a few.
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

fn check_error(damaged: &Damaged<DeviceGroup>) {
    let saved = &damaged.saved;
    assert!(
        damaged.survivors != Survivors::None || saved.claims().next().is_none(),
        "claims were recovered although none can be"
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
        "Go would write the text differently, and compute its checksum from that"
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

/// Whether the text has no white space outside of strings, and in strings none of the
/// five characters that Go escapes.
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
