//! Numbers in sentences.

/// `1 error`, `2 errors`.
pub fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// The end of a message that names one of several: ` (and 2 more like it)`.
pub fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        n => format!(" (and {n} more like it)"),
    }
}
