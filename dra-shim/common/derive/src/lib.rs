#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Writes `code()`, `hint()` and `class()` of an error from its `#[advice(...)]` attributes.
///
/// On a variant, or on an enum or struct for all that do not give their own:
///
/// | attribute | meaning |
/// |---|---|
/// | `code = EXPR`, `hint = EXPR` | The method returns this `&'static str`. |
/// | `retry`, `permanent`, `class = EXPR` | `class()` returns this `Class`. |
/// | `from = FIELD`, or `from` for `_0` | What is not given here comes from the method of the same name of this field. |
/// | `vis = "pub(crate)"` | Of an enum or struct: the visibility of the methods, which is `pub` otherwise. |
///
/// In an expression, named fields have their names and tuple fields the names `_0`, `_1`; all of them are references.
///
/// A method exists if at least one attribute gives its value; a variant without that value is a compile error.
#[proc_macro_derive(Advice, attributes(advice))]
pub fn advice(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
