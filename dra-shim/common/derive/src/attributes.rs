//! What one `#[advice(...)]` says.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Expr, Ident, LitStr, Token, Visibility, parse_quote};

/// A method that the derive can write.
#[derive(Clone, Copy)]
pub(crate) enum Method {
    Code,
    Hint,
    Class,
}

/// The `#[advice(...)]` attributes of one variant, or of the enum or struct.
#[derive(Default)]
pub(crate) struct Attributes {
    code: Option<TokenStream>,
    hint: Option<TokenStream>,
    class: Option<TokenStream>,
    /// The field that has what is not given here.
    from: Option<Ident>,
    pub(crate) vis: Option<Visibility>,
}

// === impl Method ===

impl Method {
    pub(crate) const ALL: [Self; 3] = [Self::Code, Self::Hint, Self::Class];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Hint => "hint",
            Self::Class => "class",
        }
    }
}

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
        let is_new = match key.as_str() {
            "code" => set(&mut self.code, expression(item)?),
            "hint" => set(&mut self.hint, expression(item)?),
            "class" => set(&mut self.class, expression(item)?),
            "retry" => set(&mut self.class, quote!(::dra_common::Class::Retry)),
            "permanent" => set(&mut self.class, quote!(::dra_common::Class::Permanent)),
            "from" if item.input.peek(Token![=]) => set(&mut self.from, item.value()?.parse()?),
            "from" => set(&mut self.from, parse_quote!(_0)),
            "vis" => {
                let text: LitStr = item.value()?.parse()?;
                set(&mut self.vis, text.parse()?)
            }
            _ => {
                return Err(item.error("expected code, hint, class, retry, permanent, from or vis"));
            }
        };
        if is_new {
            Ok(())
        } else {
            Err(item.error("is given already"))
        }
    }

    /// The value that is given here for the method.
    pub(crate) fn given(&self, method: Method) -> Option<&TokenStream> {
        match method {
            Method::Code => self.code.as_ref(),
            Method::Hint => self.hint.as_ref(),
            Method::Class => self.class.as_ref(),
        }
    }

    /// The value that is given here for the method, or else the field's.
    pub(crate) fn value(&self, method: Method) -> Option<TokenStream> {
        let of_field = || {
            let field = self.from.as_ref()?;
            let name = Ident::new(method.name(), field.span());
            Some(quote!(#field.#name()))
        };
        self.given(method).cloned().or_else(of_field)
    }
}

fn expression(item: &ParseNestedMeta<'_>) -> syn::Result<TokenStream> {
    Ok(item.value()?.parse::<Expr>()?.into_token_stream())
}

/// Whether there was no value yet.
fn set<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}
