//! A finding of `validate`.

use serde::Serialize;

use crate::args::Level;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The file or directory.
    pub(super) file: String,
    /// Path of the field in JSON.
    pub(super) field: Option<String>,
    pub(super) line: Option<usize>,
    pub(super) column: Option<usize>,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) fix: String,
}

impl Finding {
    /// About a file as a whole.
    pub(super) fn error(
        file: &str,
        code: &'static str,
        message: String,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Error,
            file: file.to_owned(),
            field: None,
            line: None,
            column: None,
            code,
            message,
            fix: fix.into(),
        }
    }

    pub(super) fn in_field(self, field: String) -> Self {
        Self {
            field: Some(field),
            ..self
        }
    }
}
