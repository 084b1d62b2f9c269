use std::error::Error;

/// An error and its sources as one line, outermost first: `a: b: c`. A source is skipped if the
/// message before ends with it, since many libraries print the source of an error themselves.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
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
