//! Files of unavailable writers: any content with matching checksums.

#![expect(clippy::indexing_slicing, reason = "test helpers")]

use serde_json::Value;

/// The checksum by its definition, over the rendered text.
pub(crate) fn checksum(text: &str) -> u32 {
    let bytes: Vec<String> = text.bytes().map(|b| b.to_string()).collect();
    let rendered = format!("([]uint8)[{}]", bytes.join(" "));
    rendered.bytes().fold(0x811c_9dc5, |hash: u32, c| {
        (hash ^ u32::from(c)).wrapping_mul(0x0100_0193)
    })
}

/// Replaces `"checksum":0` in the file and its V2 by matching checksums.
pub(crate) fn sealed(file: &str) -> String {
    let value: Value = serde_json::from_str(file).unwrap();
    let (v1, v2) = (value["v1"].to_string(), value["v2"].to_string());
    let outer = checksum(&format!(r#"{{"checksum":0,"v1":{v1}}}"#));
    let inner = checksum(&v2);
    let sealed = v2.replacen(r#""checksum":0"#, &format!(r#""checksum":{inner}"#), 1);
    assert!(
        file.contains(&v1) && file.contains(&v2),
        "the file has our layout"
    );
    let (before, after) = file.split_once(&v2).unwrap();
    let before = before.replacen(r#""checksum":0"#, &format!(r#""checksum":{outer}"#), 1);
    let after = after.replacen(r#""checksum":0"#, &format!(r#""checksum":{outer}"#), 1);
    [before, sealed, after].concat()
}

/// The fixture with both checksums zeroed, to be changed and sealed.
pub(crate) fn unsealed(fixture: &[u8]) -> Value {
    let mut file: Value = serde_json::from_slice(fixture).unwrap();
    file["checksum"] = 0.into();
    file["v2"]["checksum"] = 0.into();
    file
}
