//! How much memory a message takes when it is decoded, found out before it is.
//!
//! An empty element takes two bytes in a message, and hundreds in memory. What comes is
//! walked along the protocol definition, without a copy of anything; text that only looks
//! like a message counts as text.

use crate::wire::{Field, Fields};

/// What a message of the protocol definition takes.
struct Layout {
    name: &'static str,
    /// Without what its fields point to.
    size: usize,
    /// The fields that take more than they are sent in, by their numbers.
    fields: &'static [(u64, Kind)],
}

#[derive(Clone, Copy)]
enum Kind {
    /// The message of this index.
    Message(usize),
    Text,
    /// Repeated ones, in one field or in many.
    Numbers,
}

/// Made by `build.rs`.
static LAYOUTS: &[Layout] = include!(concat!(env!("OUT_DIR"), "/layouts.rs"));

/// Lists and maps grow to twice of what they hold at most.
const GROWTH: usize = 2;
const TEXT: usize = size_of::<String>();
const NUMBER: usize = size_of::<u64>();
/// The least that is allocated.
const MIN_ALLOCATION: usize = 32;

/// Bytes in memory that a message of the type `M` takes, whether it can be decoded or not.
pub(crate) fn weight<M: prost::Name>(bytes: &[u8]) -> usize {
    let layout = LAYOUTS.iter().find(|layout| layout.name == M::NAME);
    // There is one for each: build.rs makes both.
    layout.map_or(usize::MAX, |layout| layout.size + layout.weigh(bytes))
}

// === impl Layout ===

impl Layout {
    /// What the fields of a message point to.
    fn weigh(&self, bytes: &[u8]) -> usize {
        let mut weight: usize = 0;
        for field in Fields::of(bytes) {
            let mut fields = self.fields.iter();
            if let Some((_, kind)) = fields.find(|(number, _)| *number == field.number) {
                weight = weight.saturating_add(kind.weigh(&field));
            }
        }
        weight
    }
}

// === impl Kind ===

impl Kind {
    fn weigh(self, field: &Field<'_>) -> usize {
        match self {
            Self::Message(index) => LAYOUTS.get(index).map_or(0, |layout| {
                (GROWTH * layout.size).saturating_add(layout.weigh(field.bytes))
            }),
            Self::Text if field.bytes.is_empty() => GROWTH * TEXT,
            Self::Text => GROWTH * TEXT + field.bytes.len().max(MIN_ALLOCATION),
            // A number takes a byte at least.
            Self::Numbers => GROWTH * NUMBER * field.bytes.len().max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::{Message as _, Name};

    use super::*;
    use crate::api::generated::{CreateContainerRequest, StateChangeEvent, SynchronizeRequest};
    use crate::api::{
        Container, ContainerUpdate, LinuxResources, Mount, PodSandbox, User,
        ValidateContainerAdjustmentRequest,
    };

    fn assert_size<M: Name>() {
        let layout = LAYOUTS.iter().find(|layout| layout.name == M::NAME);
        let size = layout.unwrap().size;
        assert!(
            size >= size_of::<M>(),
            "{}: {size}, {}",
            M::NAME,
            size_of::<M>()
        );
    }

    // req: NRI-8
    #[test]
    fn no_message_is_larger_than_it_is_counted() {
        assert_size::<Container>();
        assert_size::<ContainerUpdate>();
        assert_size::<CreateContainerRequest>();
        assert_size::<LinuxResources>();
        assert_size::<Mount>();
        assert_size::<PodSandbox>();
        assert_size::<StateChangeEvent>();
        assert_size::<SynchronizeRequest>();
        assert_size::<ValidateContainerAdjustmentRequest>();
    }

    #[test]
    fn text_that_looks_like_a_message_counts_as_text() {
        // Two spaces are a field of a message.
        let args = vec![" ".repeat(1 << 20)];
        let container = Container {
            args,
            ..Default::default()
        };
        let weight = weight::<Container>(&container.encode_to_vec());
        assert!(weight < (1 << 20) + 4096, "{weight}");
    }

    #[test]
    fn what_comes_before_an_error_counts() {
        let mut bytes = [0x4a, 0].repeat(1000);
        bytes.push(0x4a);
        assert!(weight::<Container>(&bytes) > 1000 * size_of::<Mount>());
    }

    #[test]
    fn numbers_count_in_one_field_and_in_many() {
        for bytes in [
            [&[0x1a, 100][..], &[1; 100]].concat(),
            [0x18, 1].repeat(100),
        ] {
            assert!(weight::<User>(&bytes) >= 100 * size_of::<u32>());
            assert_eq!(
                User::decode(bytes.as_slice())
                    .unwrap()
                    .additional_gids
                    .len(),
                100
            );
        }
    }
}
