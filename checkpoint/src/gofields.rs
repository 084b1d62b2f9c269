//! Field names as Go's `encoding/json` accepts them.
//!
//! Go matches field names case-insensitively: it reads `Channel` as `channel`. To
//! serde that is an unknown field, so a device that is in use would look free. A
//! deserializer between serde and the text therefore refuses a name that matches a
//! field of the struct only in Go.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

/// The field names of a struct, as serde has them.
type Names = &'static [&'static str];

/// No struct is being read.
const NONE: Names = &[];

/// Reads JSON as a Go program would, or fails.
///
/// Like `serde_json::from_str`, with two more errors: a field name that differs
/// from one of `T`'s only in case, since Go would accept it, and an array in place
/// of a struct. `T` decides about unknown fields.
/// [`Checkpoint::decode`](crate::Checkpoint::decode) reads payloads with it, and so
/// must an own [`Payload::from_legacy`](crate::Payload::from_legacy).
///
/// ```
/// # #[derive(serde::Deserialize)]
/// struct Held {
///     channel: Option<u32>,
/// }
/// let read = dra_checkpoint::from_go_json::<Held>;
/// assert_eq!(read(r#"{"channel":7,"new":1}"#)?.channel, Some(7));
/// // Go reads channel 7, serde none.
/// assert!(read(r#"{"Channel":7}"#).is_err());
/// assert_eq!(serde_json::from_str::<Held>(r#"{"Channel":7}"#)?.channel, None);
/// # Ok::<_, serde_json::Error>(())
/// ```
pub fn from_go_json<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(Reader::for_value(&mut reader))?;
    reader.end()?;
    Ok(value)
}

/// The field that Go would read `name` as, if the spelling differs.
///
/// Go's decoder folds names: case, and the two non-ASCII characters that fold to
/// an ASCII letter.
fn go_match(name: &str, fields: Names) -> Option<&'static str> {
    if fields.contains(&name) {
        return None;
    }
    fields.iter().find(|field| is_same(name, field)).copied()
}

/// Whether Go's decoder treats two names as the same.
pub(crate) fn is_same(name: &str, other: &str) -> bool {
    folded(name).eq(folded(other))
}

fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().map(|c| match c {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        other => other.to_ascii_lowercase(),
    })
}

/// A wrapper around serde's deserializers, visitors, accesses and seeds. `T` does
/// the work; everything that it returns is wrapped again.
struct Reader<T> {
    inner: T,
    /// The field names of the struct whose keys are read; [`NONE`] for a value.
    names: Names,
}

// === impl Reader ===

impl<T> Reader<T> {
    fn for_value(inner: T) -> Self {
        Self { inner, names: NONE }
    }

    fn for_key(inner: T, names: Names) -> Self {
        Self { inner, names }
    }

    fn check<E: Error>(&self, name: &str) -> Result<(), E> {
        match go_match(name, self.names) {
            None => Ok(()),
            Some(field) => Err(E::custom(format_args!("Go reads {name:?} as {field:?}"))),
        }
    }
}

macro_rules! deserialize {
    ($($method:ident($($arg:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(
            self, $($arg: $type,)* visitor: V,
        ) -> Result<V::Value, Self::Error> {
            let visitor = Reader::for_key(visitor, self.names);
            self.inner.$method($($arg,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Reader<D> {
    type Error = D::Error;

    deserialize! {
        deserialize_any(); deserialize_bool(); deserialize_char();
        deserialize_i8(); deserialize_i16(); deserialize_i32(); deserialize_i64();
        deserialize_u8(); deserialize_u16(); deserialize_u32(); deserialize_u64();
        deserialize_i128(); deserialize_u128(); deserialize_f32(); deserialize_f64();
        deserialize_str(); deserialize_string(); deserialize_identifier();
        deserialize_bytes(); deserialize_byte_buf();
        deserialize_option(); deserialize_unit(); deserialize_ignored_any();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq(); deserialize_map();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_enum(name: &'static str, variants: Names);
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: Names,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let visitor = Reader::for_key(visitor, fields);
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<Self::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

macro_rules! visit_checked {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<Self::Value, E> {
            self.check(&value)?;
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Reader<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool(bool); visit_char(char);
        visit_i8(i8); visit_i16(i16); visit_i32(i32); visit_i64(i64);
        visit_u8(u8); visit_u16(u16); visit_u32(u32); visit_u64(u64);
        visit_i128(i128); visit_u128(u128); visit_f32(f32); visit_f64(f64);
        visit_bytes(&[u8]); visit_borrowed_bytes(&'de [u8]); visit_byte_buf(Vec<u8>);
    }

    visit_checked! {
        visit_str(&str); visit_borrowed_str(&'de str); visit_string(String);
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        self.inner.visit_some(Reader::for_value(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        self.inner.visit_newtype_struct(Reader::for_value(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        if !self.names.is_empty() {
            // Derived code would read the array field by field.
            return Err(A::Error::invalid_type(Unexpected::Seq, &"an object"));
        }
        self.inner.visit_seq(Reader::for_value(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
        self.inner.visit_map(Reader::for_key(members, self.names))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<Self::Value, A::Error> {
        self.inner.visit_enum(Reader::for_value(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Reader<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        self.inner.deserialize(Reader::for_key(reader, self.names))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Reader<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Self::Error> {
        self.inner.next_element_seed(Reader::for_value(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Reader<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Self::Error> {
        self.inner.next_key_seed(Reader::for_key(seed, self.names))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, Self::Error> {
        self.inner.next_value_seed(Reader::for_value(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Reader<A> {
    type Error = A::Error;
    type Variant = Reader<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), Self::Error> {
        let (value, variant) = self.inner.variant_seed(seed)?;
        Ok((value, Reader::for_value(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Reader<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), Self::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<S::Value, Self::Error> {
        self.inner.newtype_variant_seed(Reader::for_value(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.inner.tuple_variant(len, Reader::for_value(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: Names,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let visitor = Reader::for_key(visitor, fields);
        self.inner.struct_variant(fields, visitor)
    }
}

#[cfg(test)]
mod tests;
