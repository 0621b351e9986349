//! The trace of a simulation: a hash over everything that happened, in order.

/// FNV-1a, over numbers and texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace {
    hash: u64,
    /// What was added so far.
    pub(crate) length: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, length: 0 }
    }
}

impl Trace {
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0xff]);
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length += 1;
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
