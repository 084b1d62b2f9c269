//! Generates the methods from the attributes.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields};

use crate::attributes::Attributes;

const METHODS: [&str; 3] = ["code", "hint", "class"];

/// One arm of the methods: a variant, or the whole struct.
struct Case {
    name: Ident,
    pattern: TokenStream,
    attributes: Attributes,
}

pub(crate) fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let defaults = Attributes::parse(&input.attrs)?;
    let cases = match &input.data {
        Data::Enum(data) => {
            let variants = data.variants.iter();
            let cases = variants.map(|variant| {
                let name = &variant.ident;
                Ok(Case {
                    name: name.clone(),
                    pattern: pattern(&quote!(Self::#name), &variant.fields),
                    attributes: Attributes::parse(&variant.attrs)?,
                })
            });
            cases.collect::<syn::Result<Vec<_>>>()?
        }
        Data::Struct(data) => vec![Case {
            name: input.ident.clone(),
            pattern: pattern(&quote!(Self), &data.fields),
            attributes: Attributes::default(),
        }],
        Data::Union(_) => return Err(Error::new(Span::call_site(), "a union has no variants")),
    };
    let methods = METHODS.map(|method| method_of(method, &defaults, &cases));
    let methods = methods.into_iter().collect::<syn::Result<TokenStream>>()?;
    let name = &input.ident;
    let (impl_generics, type_generics, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables, clippy::all, clippy::pedantic)]
        impl #impl_generics #name #type_generics #bounds {
            #methods
        }
    })
}

/// Binds all fields: named ones by their names, others as `_0`, `_1`.
fn pattern(path: &TokenStream, fields: &Fields) -> TokenStream {
    match fields {
        Fields::Named(fields) => {
            let names = fields.named.iter().map(|field| &field.ident);
            quote!(#path { #(#names),* })
        }
        Fields::Unnamed(fields) => {
            let names = (0..fields.unnamed.len()).map(|index| format_ident!("_{index}"));
            quote!(#path(#(#names),*))
        }
        Fields::Unit => path.clone(),
    }
}

/// The method, or nothing if no attribute gives a value for it.
fn method_of(method: &str, defaults: &Attributes, cases: &[Case]) -> syn::Result<TokenStream> {
    let is_given = |attributes: &Attributes| attributes.given(method).is_some();
    if !is_given(defaults) && !cases.iter().any(|case| is_given(&case.attributes)) {
        return Ok(TokenStream::new());
    }
    let arms = cases.iter().map(|case| {
        let value = case.attributes.value(method);
        let value = value.or_else(|| defaults.value(method));
        let value = value.ok_or_else(|| missing(method, &case.name))?;
        let pattern = &case.pattern;
        Ok(quote!(#pattern => #value,))
    });
    let arms = arms.collect::<syn::Result<TokenStream>>()?;
    let public = quote!(pub);
    let vis = defaults.given("vis").unwrap_or(&public);
    let name = Ident::new(method, Span::call_site());
    let (doc, returned) = match method {
        "code" => (
            "Returns a stable code for metrics, logs and events.",
            quote!(&'static str),
        ),
        "hint" => (
            "Returns what to do about the error; may be empty.",
            quote!(&'static str),
        ),
        _ => (
            "Returns whether a retry can succeed.",
            quote!(::dra_common::Class),
        ),
    };
    Ok(quote! {
        #[doc = #doc]
        #vis fn #name(&self) -> #returned {
            match self { #arms }
        }
    })
}

fn missing(method: &str, case: &Ident) -> Error {
    let example = match method {
        "class" => "retry".to_owned(),
        _ => format!("{method} = \"...\""),
    };
    Error::new(
        case.span(),
        format!("`{case}` has no {method}: add #[advice({example})]"),
    )
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn error_of(input: &DeriveInput) -> String {
        expand(input).unwrap_err().to_string()
    }

    #[test]
    fn a_variant_without_a_value_that_another_one_has_is_an_error() {
        let without_code = error_of(&parse_quote! {
            enum E {
                #[advice(code = "a", hint = "b")]
                A,
                #[advice(hint = "b")]
                B,
            }
        });
        assert_eq!(
            without_code,
            "`B` has no code: add #[advice(code = \"...\")]"
        );
        let without_class = error_of(&parse_quote! {
            enum E {
                #[advice(retry)]
                A,
                B,
            }
        });
        assert_eq!(without_class, "`B` has no class: add #[advice(retry)]");
    }

    #[test]
    fn a_value_is_given_once() {
        let twice = error_of(&parse_quote! {
            #[advice(retry, permanent)]
            struct E;
        });
        assert_eq!(twice, "duplicate key");
    }

    #[test]
    fn an_unknown_key_is_an_error_that_lists_the_known_ones() {
        let unknown = error_of(&parse_quote! {
            #[advice(codes = "a")]
            struct E;
        });
        assert_eq!(
            unknown,
            "expected code, hint, class, retry, permanent, from or vis"
        );
    }
}
