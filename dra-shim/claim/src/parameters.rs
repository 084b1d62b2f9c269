//! Opaque parameters, decoded like Go's decoders of Kubernetes objects do, strictly or not.

use std::collections::HashSet;
use std::fmt;

use dra_common::Advice;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::quantity_value;

/// The parameters of an opaque configuration: a JSON object, or an object in it.
///
/// The getters follow Go's non-strict decoder: null means absent, of several fields with one name the last that is not
/// null is used, and unknown fields are ignored. [`deny_unknown`](Self::deny_unknown) adds what its strict decoder
/// refuses. Field names are case-sensitive.
///
/// ```
/// use dra_claim::Parameters;
///
/// let json = r#"{"apiVersion": "lamps.example.com/v1", "kind": "LampConfig", "light": {"Color": "red"}}"#;
/// let parameters = Parameters::parse(json)?;
/// assert_eq!(parameters.kind_of("lamps.example.com/v1")?, "LampConfig");
///
/// let light = parameters.object("light")?.unwrap();
/// assert_eq!(light.string("color")?, None);
///
/// let known = ["apiVersion", "kind", "light", "light.color"];
/// let error = parameters.deny_unknown(&known).unwrap_err();
/// assert_eq!(error.to_string(), r#"strict decoding error: unknown field "light.Color""#);
/// # Ok::<(), dra_claim::ParametersError>(())
/// ```
#[derive(Debug)]
pub struct Parameters<'a> {
    /// The path of this object's fields: empty, or ends with a dot.
    prefix: String,
    fields: Fields<'a>,
}

/// The fields of one JSON object in their order, including duplicates, which a map would hide.
#[derive(Debug)]
struct Fields<'a>(Vec<(String, &'a RawValue)>);

/// Why opaque parameters cannot be decoded. All errors are permanent, because the configuration of a claim is
/// immutable.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(
    hint = "correct the opaque parameters in a new claim, or in the claim's template or DeviceClass",
    permanent
)]
pub enum ParametersError {
    /// Not JSON, or not an object.
    #[error("parameters are not a JSON object")]
    #[advice(code = "config-not-json")]
    NotAnObject {
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// No `kind`.
    #[error("object 'kind' is missing")]
    #[advice(code = "config-without-kind")]
    MissingKind,
    /// No `apiVersion`.
    #[error("object 'apiVersion' is missing")]
    #[advice(code = "config-without-kind")]
    MissingApiVersion,
    /// An unknown kind or version. The message is Go's.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    #[advice(code = "config-of-unknown-kind")]
    UnknownKind {
        /// The kind.
        kind: String,
        /// The API version.
        api_version: String,
    },
    /// A field of another type.
    #[error("field {field:?} is not {expected}")]
    #[advice(code = "config-field-type")]
    WrongType {
        /// The field's path.
        field: String,
        /// The type, such as "a string".
        expected: &'static str,
        /// What it is instead, if that is not obvious.
        #[source]
        source: Option<serde_json::Error>,
    },
    /// Unknown or duplicate fields. The message is Go's.
    #[error("strict decoding error: {}", problems.join(", "))]
    #[advice(code = "config-unknown-field")]
    Strict {
        /// One for each offending field, in their order: `unknown field "x"`, `duplicate field "x.y"`.
        problems: Vec<String>,
    },
}

// === impl Parameters ===

impl<'a> Parameters<'a> {
    /// Reads the fields of a JSON object; what they contain is checked when it is read.
    ///
    /// # Errors
    /// [`ParametersError::NotAnObject`].
    pub fn parse(json: &'a str) -> Result<Self, ParametersError> {
        let fields =
            serde_json::from_str(json).map_err(|source| ParametersError::NotAnObject { source })?;
        Ok(Self {
            prefix: String::new(),
            fields,
        })
    }

    /// The object's `kind`, if its `apiVersion` is `api_version`.
    ///
    /// # Errors
    /// One of them is missing, empty or not a string, or it is another version.
    pub fn kind_of(&self, api_version: &str) -> Result<String, ParametersError> {
        let given = |name| Ok(self.string(name)?.filter(|text| !text.is_empty()));
        let kind = given("kind")?.ok_or(ParametersError::MissingKind)?;
        let version = given("apiVersion")?.ok_or(ParametersError::MissingApiVersion)?;
        if version == api_version {
            Ok(kind)
        } else {
            Err(ParametersError::UnknownKind {
                kind,
                api_version: version,
            })
        }
    }

    /// Fails if this object, or an object in it, has duplicate fields or fields outside `known`. The error names all
    /// of them.
    ///
    /// `known` contains the paths of all fields: `a` and `a.b` for a field `b` of the object in `a`; `a.*` if the
    /// names in `a` are arbitrary. Lists are not searched.
    ///
    /// # Errors
    /// [`ParametersError::Strict`].
    pub fn deny_unknown(&self, known: &[&str]) -> Result<(), ParametersError> {
        let mut problems = Vec::new();
        self.add_problems(known, &mut problems);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ParametersError::Strict { problems })
        }
    }

    fn add_problems(&self, known: &[&str], problems: &mut Vec<String>) {
        let any_name = known.contains(&self.path("*").as_str());
        let mut seen = HashSet::new();
        for (name, raw) in &self.fields.0 {
            let path = self.path(name);
            // A dot in a name is no path.
            let is_known = any_name || (!name.contains('.') && known.contains(&path.as_str()));
            if !seen.insert(name) {
                problems.push(format!("duplicate field {path:?}"));
            } else if !is_known {
                problems.push(format!("unknown field {path:?}"));
            } else if let Ok(fields) = serde_json::from_str(raw.get()) {
                let prefix = format!("{path}.");
                if known.iter().any(|known| known.starts_with(&prefix)) {
                    Self { prefix, fields }.add_problems(known, problems);
                }
            }
        }
    }

    /// The object in a field.
    ///
    /// # Errors
    /// The field is something else.
    pub fn object(&self, name: &str) -> Result<Option<Self>, ParametersError> {
        let Some(raw) = self.raw(name) else {
            return Ok(None);
        };
        let fields = serde_json::from_str(raw.get())
            .map_err(|source| self.wrong_type(name, "an object", Some(source)))?;
        Ok(Some(Self {
            prefix: format!("{}.", self.path(name)),
            fields,
        }))
    }

    /// The names of the fields, without repetitions, in the order in which they first occur.
    pub fn names(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let names = self.fields.0.iter().map(|(name, _)| name.as_str());
        names.filter(|name| seen.insert(*name)).collect()
    }

    /// The value of a string field.
    ///
    /// # Errors
    /// The field is something else.
    pub fn string(&self, name: &str) -> Result<Option<String>, ParametersError> {
        self.value(name, "a string")
    }

    /// The value of a boolean field.
    ///
    /// # Errors
    /// The field is something else.
    pub fn bool(&self, name: &str) -> Result<Option<bool>, ParametersError> {
        self.value(name, "a boolean")
    }

    /// The value of a field with an integer of 64 bits.
    ///
    /// # Errors
    /// The field is something else.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, ParametersError> {
        self.value(name, "an integer")
    }

    /// The value of a field with a Kubernetes quantity, as a string or a number; see [`quantity_value`].
    ///
    /// # Errors
    /// The field is something else, or negative.
    pub fn quantity(&self, name: &str) -> Result<Option<u64>, ParametersError> {
        let Some(raw) = self.raw(name) else {
            return Ok(None);
        };
        let text = serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned());
        let value = quantity_value(&text);
        let value = value.ok_or_else(|| self.wrong_type(name, "a quantity", None));
        value.map(Some)
    }

    fn value<T: DeserializeOwned>(
        &self,
        name: &str,
        expected: &'static str,
    ) -> Result<Option<T>, ParametersError> {
        let value = self.raw(name).map(|raw| serde_json::from_str(raw.get()));
        value
            .transpose()
            .map_err(|source| self.wrong_type(name, expected, Some(source)))
    }

    /// The last of the fields with this name that is not null.
    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        let is_set = |key: &str, raw: &RawValue| key == name && raw.get() != "null";
        let mut fields = self.fields.0.iter().rev();
        fields
            .find(|(key, raw)| is_set(key, raw))
            .map(|(_, raw)| *raw)
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn wrong_type(
        &self,
        name: &str,
        expected: &'static str,
        source: Option<serde_json::Error>,
    ) -> ParametersError {
        ParametersError::WrongType {
            field: self.path(name),
            expected,
            source,
        }
    }
}

// === impl Fields ===

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(FieldsVisitor).map(Self)
    }
}
