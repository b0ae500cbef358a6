//! The properties of the fuzzers on their seeds: every recorded transcript, and each of them cut,
//! doubled and expanded. `fuzz/run` continues from here.

use std::path::Path;

fn seeds(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let seeds: Vec<Vec<u8>> = files.filter_map(|file| std::fs::read(file.path()).ok()).collect();
    assert!(seeds.len() > 50, "{} seeds", seeds.len());
    seeds
}

/// A seed, and its halves swapped with one of them repeated.
fn variants(seed: &[u8]) -> [Vec<u8>; 2] {
    let (first, second) = seed.split_at(seed.len() / 2);
    [seed.to_vec(), [second, b"\xff\x03", first].concat()]
}

#[test]
fn streams_mean_the_same_in_any_split() {
    use support::stream_properties::{any_bytes_in_any_split, claude, codex, copilot};
    let decoders: [(&str, fn() -> _); 3] = [
        ("transcripts", claude),
        ("agent-transcripts/codex", codex),
        ("agent-transcripts/copilot", copilot),
    ];
    for (folder, decoder) in decoders {
        for input in seeds(folder).iter().flat_map(|seed| variants(seed)) {
            any_bytes_in_any_split(decoder, &input);
        }
    }
}
