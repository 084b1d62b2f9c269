//! Values out of a tree, by the rules of `sigs.k8s.io/yaml` over
//! `encoding/json`: a field is found by its name in any case; null is an empty
//! value; a scalar where a text belongs is its text; a whole float is an int.

use serde::de::{Deserialize, Deserializer, Error, Expected, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::access::{Map, Seq};
use super::cursor::{Budget, Cursor};
use super::error::ReadError;
use super::scalar::Scalar;
use super::tree::{Tree, Value};
use crate::SpecError;
use crate::spec::SpecFault;

/// The document as a `T`.
pub(super) fn read<T: for<'de> Deserialize<'de>>(tree: &Tree<'_>) -> Result<T, SpecError> {
    let budget = Budget::new(tree);
    let root = Cursor::new(tree, &budget);
    if let Value::Scalar(Scalar::Null) = tree.node(tree.root).value {
        let fault = SpecFault::Syntax("the document is empty".to_owned());
        return Err(SpecError::new(fault));
    }
    T::deserialize(root).map_err(|error| error.at(root.position()).into())
}

impl<'de> Deserializer<'de> for Cursor<'_, '_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value()? {
            Value::Scalar(Scalar::Bool(_)) => self.deserialize_bool(visitor),
            Value::Scalar(Scalar::Int(_) | Scalar::BigInt(_) | Scalar::Float(_)) => {
                self.number(visitor)
            }
            Value::Scalar(Scalar::Text(_) | Scalar::Merge) => self.deserialize_str(visitor),
            Value::Scalar(Scalar::Null) => visitor.visit_unit(),
            Value::Sequence(_) => self.deserialize_seq(visitor),
            Value::Mapping(_) => self.map(None, visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let text = self.scalar(&visitor)?.to_text();
        visitor.visit_str(&text.unwrap_or_default())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.scalar(&visitor)? {
            Scalar::Null => visitor.visit_bool(false),
            Scalar::Bool(truth) => visitor.visit_bool(*truth),
            scalar => Err(ReadError::invalid_type(unexpected_scalar(scalar), &visitor)),
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.number(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if let Value::Scalar(Scalar::Float(float)) = self.value()?
            && float.is_sign_negative()
        {
            return Err(ReadError::invalid_type(Unexpected::Float(*float), &visitor));
        }
        self.number(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value()? {
            Value::Scalar(Scalar::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let entries = match self.value()? {
            Value::Sequence(entries) => entries.as_slice(),
            Value::Scalar(Scalar::Null) => &[],
            value => return Err(ReadError::invalid_type(unexpected(value), &visitor)),
        };
        visitor.visit_seq(Seq::new(self, entries))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.map(None, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.map(Some(fields), visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct enum identifier ignored_any
    }
}

// === impl Cursor ===

impl<'a, 't> Cursor<'a, 't> {
    fn scalar(self, expected: &dyn Expected) -> Result<&'a Scalar<'t>, ReadError> {
        match self.value()? {
            Value::Scalar(scalar) => Ok(scalar),
            value => Err(ReadError::invalid_type(unexpected(value), expected)),
        }
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.scalar(&visitor)? {
            Scalar::Null => visitor.visit_i64(0),
            Scalar::Int(int) => visitor.visit_i64(*int),
            Scalar::BigInt(int) => visitor.visit_u64(*int),
            Scalar::Float(float) => match whole(*float) {
                Some(int) => visitor.visit_i64(int),
                None => Err(ReadError::invalid_type(Unexpected::Float(*float), &visitor)),
            },
            scalar => Err(ReadError::invalid_type(unexpected_scalar(scalar), &visitor)),
        }
    }

    fn map<'de, V: Visitor<'de>>(
        self,
        fields: Option<&'static [&'static str]>,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let entries = match self.value()? {
            Value::Mapping(entries) => self.entries(entries, 0)?,
            Value::Scalar(Scalar::Null) => Vec::new(),
            value => return Err(ReadError::invalid_type(unexpected(value), &visitor)),
        };
        visitor.visit_map(Map::new(self, fields, entries))
    }
}

/// The int that Go's JSON makes of a float: the one whose digits are written.
fn whole(float: f64) -> Option<i64> {
    let written = float.fract() == 0.0 && float.abs() < 1e21;
    written.then(|| float.to_string().parse().ok()).flatten()
}

fn unexpected<'a>(value: &'a Value<'_>) -> Unexpected<'a> {
    match value {
        Value::Scalar(scalar) => unexpected_scalar(scalar),
        Value::Sequence(_) => Unexpected::Seq,
        Value::Mapping(_) => Unexpected::Map,
    }
}

fn unexpected_scalar<'a>(scalar: &'a Scalar<'_>) -> Unexpected<'a> {
    match scalar {
        Scalar::Null => Unexpected::Unit,
        Scalar::Bool(truth) => Unexpected::Bool(*truth),
        Scalar::Int(int) => Unexpected::Signed(*int),
        Scalar::BigInt(int) => Unexpected::Unsigned(*int),
        Scalar::Float(float) => Unexpected::Float(*float),
        Scalar::Text(text) => Unexpected::Str(text),
        Scalar::Merge => Unexpected::Str("<<"),
    }
}
