//! The fields of an encoded message, without knowing which message it is.

/// A field, as it is sent.
pub(crate) struct Field<'a> {
    pub(crate) number: u64,
    /// Of one that has a length; empty for numbers.
    pub(crate) bytes: &'a [u8],
}

/// The fields up to the first that is malformed: a decoder gets no further either. Those of
/// a group, which no message of NRI has, count as the message's own.
pub(crate) struct Fields<'a>(&'a [u8]);

// === impl Fields ===

impl<'a> Fields<'a> {
    pub(crate) const fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let length = usize::try_from(length).ok()?;
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let key = self.varint()?;
        let mut bytes: &[u8] = &[];
        match key & 7 {
            0 => drop(self.varint()?),
            1 => drop(self.take(8)?),
            2 => {
                let length = self.varint()?;
                bytes = self.take(length)?;
            }
            // The ends of a group.
            3 | 4 => {}
            5 => drop(self.take(4)?),
            _ => return None,
        }
        Some(Field {
            number: key >> 3,
            bytes,
        })
    }
}
