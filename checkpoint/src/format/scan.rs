//! Splits the file into its parts without building values, in one pass.
//!
//! Only brackets, strings and separators are looked at: a value that it returns
//! need not be JSON. Its user parses or checks it.

/// Walks through a JSON text. Every step is `None` where the text is not laid
/// out as expected or ends too early.
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

/// One member of an object, as text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    /// With its quotes and escapes.
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

/// An object and its members, in the text's order.
#[derive(Debug, Clone, Default)]
pub(super) struct Object<'a> {
    pub(super) text: &'a [u8],
    pub(super) members: Vec<Member<'a>>,
}

// === impl Scanner ===

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The rest of the text holds nothing but whitespace.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// What was not stepped over yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not whitespace, without stepping over it.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Steps over an object and returns its text. `member` is called at each
    /// value with its key and has to step over the value.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>,
    ) -> Option<&'a [u8]> {
        self.expect(b'{')?;
        let start = self.at - 1;
        if self.peek()? == b'}' {
            self.at += 1;
            return self.text.get(start..self.at);
        }
        loop {
            self.peek()?;
            let key = self.string()?;
            self.expect(b':')?;
            self.peek()?;
            member(self, key)?;
            if self.peek()? == b'}' {
                self.at += 1;
                return self.text.get(start..self.at);
            }
            self.expect(b',')?;
        }
    }

    /// Steps over a member's key, up to its value.
    pub(super) fn member(&mut self) -> Option<()> {
        self.string()?;
        self.expect(b':')
    }

    /// Steps over a value and returns its text.
    pub(super) fn value(&mut self) -> Option<&'a [u8]> {
        let start = {
            self.peek()?;
            self.at
        };
        match self.text.get(start)? {
            b'"' => return self.string(),
            b'{' | b'[' => self.nested()?,
            _ => self.scalar(),
        }
        self.text
            .get(start..self.at)
            .filter(|value| !value.is_empty())
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        (*self.text.get(start)? == b'"').then_some(())?;
        self.at += 1;
        loop {
            let rest = self.text.get(self.at..)?;
            let stop = rest.iter().position(|&c| c == b'"' || c == b'\\')?;
            self.at += stop + 1;
            if rest.get(stop) == Some(&b'"') {
                return self.text.get(start..self.at);
            }
            self.at += 1;
        }
    }

    fn nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.text.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn scalar(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let ends = |c: &u8| matches!(c, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
        self.at += rest.iter().position(ends).unwrap_or(rest.len());
    }
}

// === impl Object ===

impl<'a> Object<'a> {
    /// Steps over an object without splitting its members' values.
    pub(super) fn scan(scanner: &mut Scanner<'a>) -> Option<Self> {
        let mut members = Vec::new();
        let text = scanner.object(|scanner, key| {
            let value = scanner.value()?;
            members.push(Member { key, value });
            Some(())
        })?;
        Some(Self { text, members })
    }
}
