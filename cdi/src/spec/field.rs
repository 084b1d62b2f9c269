//! The path of a field of a spec.

use std::fmt;

/// The path of a field in JSON, `devices[3].containerEdits.env[0]`. Cheap to make
/// for every field that is checked; formatted only for those that are reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    device: Option<usize>,
    in_edits: bool,
    name: &'static str,
    index: Option<usize>,
    leaf: &'static str,
    leaf_index: Option<usize>,
}

impl Field {
    /// A field of the spec itself.
    pub(crate) fn in_spec(name: &'static str) -> Self {
        Self {
            device: None,
            in_edits: false,
            name,
            index: None,
            leaf: "",
            leaf_index: None,
        }
    }

    /// A field of the device at `index`; with an empty name the device itself.
    pub(crate) fn in_device(index: usize, name: &'static str) -> Self {
        Self {
            device: Some(index),
            ..Self::in_spec(name)
        }
    }

    /// The same field of the edits of `device`, or of the spec's.
    pub(crate) fn in_edits_of(self, device: Option<usize>) -> Self {
        Self {
            device,
            in_edits: true,
            ..self
        }
    }

    /// The entries of this field, which is the list `items`.
    pub(crate) fn entries<T>(self, items: &[T]) -> impl Iterator<Item = (Self, &T)> {
        let items = items.iter().enumerate();
        items.map(move |(index, item)| (self.entry(index), item))
    }

    /// An entry of this field, which is a list.
    pub(crate) fn entry(self, index: usize) -> Self {
        if self.leaf.is_empty() {
            Self {
                index: Some(index),
                ..self
            }
        } else {
            Self {
                leaf_index: Some(index),
                ..self
            }
        }
    }

    /// A field of this one, which is an object.
    pub(crate) fn leaf(self, leaf: &'static str) -> Self {
        Self { leaf, ..self }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut dot = "";
        if let Some(device) = self.device {
            write!(f, "devices[{device}]")?;
            dot = ".";
        }
        if self.in_edits {
            write!(f, "{dot}containerEdits")?;
            dot = ".";
        }
        for (name, index) in [(self.name, self.index), (self.leaf, self.leaf_index)] {
            if !name.is_empty() {
                write!(f, "{dot}{name}")?;
                dot = ".";
            }
            if let Some(index) = index {
                write!(f, "[{index}]")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Field;

    #[test]
    fn a_field_is_written_as_its_path_in_json() {
        let hook = Field::in_spec("hooks").entry(2);
        for (field, path) in [
            (Field::in_spec("kind"), "kind"),
            (Field::in_device(3, ""), "devices[3]"),
            (Field::in_device(3, "name"), "devices[3].name"),
            (
                hook.leaf("env").entry(1).in_edits_of(None),
                "containerEdits.hooks[2].env[1]",
            ),
            (
                hook.in_edits_of(Some(0)),
                "devices[0].containerEdits.hooks[2]",
            ),
        ] {
            assert_eq!(field.to_string(), path);
        }
    }
}
