//! The addresses of one test. Every test in every test process has different ones.

use std::sync::atomic::{AtomicU8, Ordering};

pub(crate) struct Network {
    prefix: String,
    pub(crate) port: u16,
}

impl Network {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let process = std::process::id();
        let test = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            prefix: format!("127.{}.{test}", 1 + process % 200),
            // Below the ephemeral ports; the command ports of all tests are on one address.
            port: 10_000 + u16::try_from(process % 100).unwrap() * 200 + u16::from(test) * 8,
        }
    }

    pub(crate) fn address(&self, number: u8) -> String {
        format!("{}.{number}", self.prefix)
    }
}
