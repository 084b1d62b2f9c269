//! The methods that the derive macro `Advice` generates.

use std::num::NonZeroU8;

use dra_common::{Advice, Class};

/// Every kind of value on a variant.
#[derive(Advice)]
#[advice(hint = "ask", permanent, vis = "pub(crate)")]
enum Own<'a> {
    #[advice(code = "unit")]
    Unit,
    #[advice(code = if *long { "long" } else { name }, hint = hint_of(*long), retry)]
    Named {
        name: &'static str,
        long: bool,
        /// Unused by the expressions.
        _rest: &'a str,
    },
    #[advice(code = _1, class = class_of(*_0))]
    Tuple(u8, &'static str),
}

/// Values from a field.
#[derive(Advice)]
enum Outer<'a> {
    #[advice(from)]
    One(Own<'a>),
    #[advice(from = source, code = "other-code")]
    Named { source: Box<Own<'a>>, _place: u8 },
    #[advice(code = "own", hint = "")]
    Own,
}

#[derive(Advice)]
#[advice(code = if limit.get() > 9 { "many" } else { "few" })]
struct Limit {
    limit: NonZeroU8,
}

fn hint_of(long: bool) -> &'static str {
    if long { "shorten it" } else { "keep it" }
}

fn class_of(number: u8) -> Class {
    match number {
        0 => Class::Retry,
        _ => Class::Permanent,
    }
}

fn named(long: bool) -> Own<'static> {
    Own::Named {
        name: "name",
        long,
        _rest: "",
    }
}

#[test]
fn a_value_is_an_expression_of_the_variants_fields() {
    assert_eq!(
        (named(true).code(), named(true).hint()),
        ("long", "shorten it")
    );
    assert_eq!(
        (named(false).code(), named(false).hint()),
        ("name", "keep it")
    );
    assert_eq!(Own::Tuple(0, "zero").code(), "zero");
    assert_eq!(Own::Tuple(0, "zero").class(), Class::Retry);
    assert_eq!(Own::Tuple(1, "one").class(), Class::Permanent);
}

#[test]
fn a_variant_without_a_value_has_that_of_the_enum() {
    assert_eq!(
        (Own::Unit.hint(), Own::Unit.class()),
        ("ask", Class::Permanent)
    );
    assert_eq!(Own::Tuple(0, "zero").hint(), "ask");
    assert_eq!(named(true).class(), Class::Retry);
}

#[test]
fn a_value_that_a_variant_lacks_comes_from_its_field() {
    let one = Outer::One(named(true));
    assert_eq!((one.code(), one.hint()), ("long", "shorten it"));
    let named = Outer::Named {
        source: Box::new(named(false)),
        _place: 0,
    };
    assert_eq!((named.code(), named.hint()), ("other-code", "keep it"));
    assert_eq!((Outer::Own.code(), Outer::Own.hint()), ("own", ""));
}

#[test]
fn a_struct_has_one_code() {
    let limit = |limit| Limit {
        limit: NonZeroU8::new(limit).unwrap(),
    };
    assert_eq!((limit(10).code(), limit(9).code()), ("many", "few"));
}
