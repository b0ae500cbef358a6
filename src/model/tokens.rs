/// The tokenizers of the models are not public. On cleaned work-item text, four bytes per token is
/// within about 10 % of public tokenizers for English, and an overestimate for scripts with more
/// bytes per character. Every result reports the exact count.
pub const BYTES_PER_TOKEN: usize = 4;

/// Rounded up.
pub fn tokens_of_bytes(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}

/// Rounded up.
pub fn estimate_tokens(text: &str) -> u64 {
    tokens_of_bytes(text.len())
}
