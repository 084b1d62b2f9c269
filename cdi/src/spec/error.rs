//! Why a spec is refused: by a check, or because its text cannot be read.

use std::error::Error;
use std::fmt;

use dra_common::OneLine;

use super::fault::SpecFault;
use super::field::Field;
use crate::{DeviceName, Kind};

/// The longest error message, in characters.
const MAX_MESSAGE: usize = 500;

/// A spec that a runtime would refuse: what is wrong, in which field, and
/// where in the text if there is one.
///
/// Display names the spec or the device, the field, the reason and, where
/// known, line and column.
#[derive(Debug)]
// Boxed, because an error is part of every result.
pub struct SpecError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    fault: SpecFault,
    kind: Option<Kind>,
    device: Option<DeviceName>,
    field: Option<String>,
    position: Option<(usize, usize)>,
}

// === impl SpecError ===

impl SpecError {
    pub(crate) fn new(fault: SpecFault) -> Self {
        Self(Box::new(Inner {
            fault,
            kind: None,
            device: None,
            field: None,
            position: None,
        }))
    }

    pub(crate) fn json(error: serde_json::Error) -> Self {
        let position = (error.line() > 0).then(|| (error.line(), error.column()));
        Self::new(SpecFault::Json(error)).at(position)
    }

    pub(crate) fn about(mut self, kind: &Kind, device: Option<&DeviceName>) -> Self {
        self.0.kind = Some(kind.clone());
        self.0.device = device.cloned();
        self
    }

    pub(crate) fn in_field(mut self, field: &Field) -> Self {
        self.0.field = Some(field.to_string());
        self
    }

    #[cfg(feature = "inject")]
    pub(crate) fn in_path(mut self, path: String) -> Self {
        self.0.field = Some(path).filter(|path| !path.is_empty());
        self
    }

    pub(crate) fn at(mut self, position: Option<(usize, usize)>) -> Self {
        self.0.position = position;
        self
    }

    /// What is wrong.
    pub fn fault(&self) -> &SpecFault {
        &self.0.fault
    }

    /// The path of the field in JSON: `devices[3].name`. `None` for a text that
    /// could not be parsed.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// Line and column of that field in the text, from 1, or of the innermost field
    /// around it that is there; columns count characters. `None` if the spec was
    /// not read from a text.
    pub fn position(&self) -> Option<(usize, usize)> {
        self.0.position
    }

    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        if self.is_unknown_version() {
            "cdi-version-unknown"
        } else {
            self.fault().code()
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        if self.is_unknown_version() {
            "declare the lowest version, from 0.3.0 to 1.1.0, that supports every field in use"
        } else {
            self.fault().hint()
        }
    }

    fn is_unknown_version(&self) -> bool {
        matches!(self.fault(), SpecFault::Shape(_)) && self.field() == Some("cdiVersion")
    }

    fn field_of_owner(&self) -> Option<&str> {
        let field = self.field()?;
        match self.0.device {
            Some(_) => field.split_once("].").map(|(_, rest)| rest),
            None => Some(field),
        }
    }
}

/// An error's message, with quotes of the spec not escaped yet.
struct Raw<'a>(&'a SpecError);

impl fmt::Display for SpecError {
    /// One line, even if it quotes untrusted text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Raw(self).to_string();
        match text.char_indices().nth(MAX_MESSAGE) {
            Some((end, _)) => write!(f, "{}…", OneLine(text.get(..end).unwrap_or_default())),
            None => write!(f, "{}", OneLine(text)),
        }
    }
}

/// The device or spec that an error is about. The field is then relative to it.
struct Owner<'a>(&'a SpecError);

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        match (&error.0.kind, &error.0.device) {
            (Some(kind), Some(device)) => write!(f, "CDI device {kind}={device}"),
            (Some(kind), None) => write!(f, "CDI spec of {kind}"),
            (None, _) => f.write_str("the CDI spec"),
        }
    }
}

impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        let fault = error.fault();
        match (fault, error.field_of_owner()) {
            (SpecFault::Json(_), _) => write!(f, "{fault}")?,
            (SpecFault::Edit(_) | SpecFault::KeyTooLong, Some(field)) => {
                write!(f, "{}: {field} {fault}", Owner(error))?;
            }
            (
                SpecFault::Syntax(_)
                | SpecFault::Repeated
                | SpecFault::Shape(_)
                | SpecFault::TooComplex(_),
                field,
            ) => {
                if error.0.kind.is_some() {
                    write!(f, "{}: ", Owner(error))?;
                }
                if let Some(field) = field {
                    write!(f, "{field}: ")?;
                }
                write!(f, "{fault}")?;
            }
            _ => {
                write!(f, "{} {fault}", Owner(error))?;
            }
        }
        match error.position() {
            Some((line, column)) => write!(f, " (line {line}, column {column})"),
            None => Ok(()),
        }
    }
}

impl Error for SpecError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.fault() {
            SpecFault::Json(error) => Some(error),
            _ => None,
        }
    }
}
