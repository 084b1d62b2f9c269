use std::error::Error;

/// Joins an error and its sources on one line, outermost first: `a: b: c`.
///
/// Skips a source if the message before it ends with the same text, since many libraries print an
/// error's source themselves.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start")]
    struct Quiet(#[source] Repeating);

    /// Prints its source, as many libraries do.
    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the file: {0}")]
    struct Repeating(#[source] io::Error);

    #[test]
    fn every_message_occurs_once() {
        let error = Quiet(Repeating(io::Error::other("no disk")));
        assert_eq!(
            error_chain(&error),
            "cannot start: cannot read the file: no disk"
        );
    }
}
