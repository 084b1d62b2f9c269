//! The `#[advice(...)]` attributes of one variant, or of the enum or struct.

use std::collections::BTreeMap;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Expr, LitStr, Token, Visibility};

/// The values by key: `code`, `hint`, `class`, `from`, `vis`.
#[derive(Default)]
pub(crate) struct Attributes(BTreeMap<&'static str, TokenStream>);

// === impl Attributes ===

impl Attributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut parsed = Self::default();
        for attribute in attributes {
            if attribute.path().is_ident("advice") {
                attribute.parse_nested_meta(|item| parsed.add(&item))?;
            }
        }
        Ok(parsed)
    }

    fn add(&mut self, item: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = item.path.require_ident()?.to_string();
        let (key, value) = match key.as_str() {
            "code" => ("code", expression(item)?),
            "hint" => ("hint", expression(item)?),
            "class" => ("class", expression(item)?),
            "retry" => ("class", quote!(::dra_common::Class::Retry)),
            "permanent" => ("class", quote!(::dra_common::Class::Permanent)),
            "from" if item.input.peek(Token![=]) => ("from", expression(item)?),
            "from" => ("from", quote!(_0)),
            "vis" => {
                let text: LitStr = item.value()?.parse()?;
                ("vis", text.parse::<Visibility>()?.into_token_stream())
            }
            _ => {
                return Err(item.error("expected code, hint, class, retry, permanent, from or vis"));
            }
        };
        match self.0.insert(key, value) {
            None => Ok(()),
            Some(_) => Err(item.error("duplicate key")),
        }
    }

    /// Returns the value of the key, if given.
    pub(crate) fn given(&self, key: &str) -> Option<&TokenStream> {
        self.0.get(key)
    }

    /// Returns the value for the method, or the call of the `from` field's method.
    pub(crate) fn value(&self, method: &str) -> Option<TokenStream> {
        let of_field = || {
            let (field, method) = (self.given("from")?, Ident::new(method, Span::call_site()));
            Some(quote!(#field.#method()))
        };
        self.given(method).cloned().or_else(of_field)
    }
}

fn expression(item: &ParseNestedMeta<'_>) -> syn::Result<TokenStream> {
    Ok(item.value()?.parse::<Expr>()?.into_token_stream())
}
