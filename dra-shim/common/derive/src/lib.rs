#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Generates `code()`, `hint()` and `class()` of an error from its `#[advice(...)]` attributes.
///
/// Attributes of a variant, or of an enum or struct as the default for all variants:
///
/// | attribute | meaning |
/// |---|---|
/// | `code = EXPR`, `hint = EXPR` | The method returns this `&'static str`. |
/// | `retry`, `permanent`, `class = EXPR` | `class()` returns this `Class`. |
/// | `from = FIELD`, or `from` for `_0` | Methods without a value call the same method of this field. |
/// | `vis = "pub(crate)"` | Only on an enum or struct: the visibility of the methods; `pub` by default. |
///
/// An expression can use named fields by name and tuple fields as `_0`, `_1`; all of them are references.
///
/// A method exists if at least one attribute gives its value; a variant without that value is a compile error.
#[proc_macro_derive(Advice, attributes(advice))]
pub fn advice(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
