//! What a text may cost.
//!
//! Never read from anywhere: the caller brings the numbers.

/// Longest text that is ever read, in bytes, whatever the limits say: offsets have 32 bits.
pub(super) const BYTES_HARD_MAX: usize = 1 << 28;

/// Deepest nesting that is ever read, whatever the limits say: the writers recurse this deep.
pub(super) const DEPTH_HARD_MAX: u16 = 128;

/// Limits of one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonLimits {
    /// Longest text, in bytes. Default 1 MiB; more than 256 MiB means 256 MiB.
    pub bytes_max: usize,
    /// Deepest nesting of arrays and objects; the root counts as one. Default 64; more than 128
    /// means 128.
    pub depth_max: u16,
    /// Most values; each array, object and scalar is one, a key belongs to its value.
    /// Default 50,000.
    pub nodes_max: usize,
}

impl Default for JsonLimits {
    fn default() -> Self {
        JsonLimits {
            bytes_max: 1 << 20,
            depth_max: 64,
            nodes_max: 50_000,
        }
    }
}
