//! The memory for each object. Texts come on top: names, UIDs, finalizers and the message of the status, together a
//! few hundred bytes. With 10 000 `ComputeDomains`, the controller should need at most 60 MiB. This is less than a tenth
//! of it.

use std::mem::size_of;

use super::*;

/// Bytes of a ComputeDomain.
const DOMAIN: usize = 336;

/// Bytes of a template.
const TEMPLATE: usize = 136;

#[test]
fn a_domain_and_its_template_are_small() {
    let (domain, template) = (size_of::<Domain>(), size_of::<ObservedTemplate>());
    assert!(domain <= DOMAIN, "a ComputeDomain has {domain} bytes");
    assert!(template <= TEMPLATE, "a template has {template} bytes");
}
