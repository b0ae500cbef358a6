//! Properties that the fuzzers check; `fuzz` compiles these files too.

pub mod clean;
pub mod stream;
