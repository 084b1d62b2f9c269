//! Compiles the vendored protocol definition in pure Rust: no `protoc` needed.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

/// Messages by their names with package, `.nri.pkg.api.v1alpha1.Mount`, in the table's order.
type Messages<'a> = BTreeMap<String, &'a DescriptorProto>;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto/api.proto");
    let descriptors = protox::compile(["proto/api.proto"], ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("layouts.rs"), layouts(&descriptors)?)?;
    // Messages only. Ordered maps: the same answer is the same bytes.
    prost_build::Config::new()
        .btree_map(["."])
        .enable_type_names()
        .field_attribute(
            ".nri.pkg.api.v1alpha1.Container.image",
            "#[doc = \"The image of the container. NRI 0.12.2 has it (containerd 2.4); \
             `None` from older runtimes.\"]",
        )
        .compile_fds(descriptors)?;
    Ok(())
}

/// The table of `src/weight.rs`: which fields of a message take memory, and how much.
fn layouts(descriptors: &FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let mut messages = Messages::new();
    for file in &descriptors.file {
        collect(
            &format!(".{}", file.package()),
            &file.message_type,
            &mut messages,
        );
    }
    let mut table = String::from("&[\n");
    for (name, message) in &messages {
        let name = name.rsplit('.').next().unwrap_or_default();
        let size = size(message, &messages);
        writeln!(
            table,
            "Layout {{ name: \"{name}\", size: {size}, fields: &["
        )?;
        for field in &message.field {
            if let Some(kind) = kind(field, &messages) {
                writeln!(table, "({}, {kind}),", field.number())?;
            }
        }
        table.push_str("] },\n");
    }
    table.push_str("]\n");
    Ok(table)
}

fn collect<'a>(scope: &str, from: &'a [DescriptorProto], messages: &mut Messages<'a>) {
    for message in from {
        let name = format!("{scope}.{}", message.name());
        collect(&name, &message.nested_type, messages);
        messages.insert(name, message);
    }
}

/// None: a field within its message, or within the number of bytes that it is sent in.
fn kind(field: &FieldDescriptorProto, messages: &Messages<'_>) -> Option<String> {
    match field.r#type() {
        Type::Message => {
            let index = messages.keys().position(|name| name == field.type_name())?;
            Some(format!("Kind::Message({index})"))
        }
        Type::String | Type::Bytes => Some("Kind::Text".to_owned()),
        _ if field.label() == Label::Repeated => Some("Kind::Numbers".to_owned()),
        _ => None,
    }
}

/// At least what the generated type takes: no message of NRI contains itself.
fn size(message: &DescriptorProto, messages: &Messages<'_>) -> usize {
    let field = |field: &FieldDescriptorProto| match field.r#type() {
        _ if field.label() == Label::Repeated => 24,
        Type::Message => {
            8 + messages
                .get(field.type_name())
                .map_or(0, |child| size(child, messages))
        }
        Type::String | Type::Bytes => 24,
        _ => 8,
    };
    message.field.iter().map(field).sum()
}
