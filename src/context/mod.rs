//! The right files before the first token: a ranked, compact picture of the code base.
