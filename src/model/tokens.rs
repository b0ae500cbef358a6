/// No tokenizer of the models we use is public. On cleaned work-item text, four bytes a token is
/// within about a tenth of what public tokenizers count for English, and on the safe side for
/// scripts with more bytes a character. The true figures come with every result.
pub const BYTES_PER_TOKEN: usize = 4;

/// Estimated tokens of a text of this many bytes, rounded up.
pub fn tokens_of_bytes(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}

/// Estimated tokens of a text, rounded up.
pub fn estimate_tokens(text: &str) -> u64 {
    tokens_of_bytes(text.len())
}
