//! The right file is first, on a small sample code base; and a context stays within its budget.

use std::path::{Path, PathBuf};

use code_context::estimate_tokens;
use code_context::{Index, Options, Query, Weights, overview, pack, rank};
use proptest::prelude::*;

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/shop")
}

fn open(repository: &Path, threads: usize) -> (Index, tempfile::TempDir) {
    let cache = tempfile::tempdir().unwrap();
    let options = Options { threads, history: false, ..Options::default() };
    let (index, _) = Index::open_or_build(repository, cache.path(), &options).unwrap();
    (index, cache)
}

fn first(index: &Index, text: &str) -> String {
    rank(index, &Query::from_text(text), &Weights::default(), 5)
        .unwrap()
        .first()
        .map(|file| file.path.clone())
        .unwrap_or_default()
}

#[test]
fn the_right_file_comes_first() {
    let (index, _cache) = open(&shop(), 2);
    for (text, path) in [
        (
            "Basket total is wrong\nThe sum over all lines ignores the quantity.",
            "src/cart/CartService.cs",
        ),
        ("SHOP1042 when the code is left empty", "src/cart/DiscountPolicy.cs"),
        (
            "Crash\n```\nFile \"/app/src/checkout/payment_gateway.py\", line 7, in charge\n```",
            "src/checkout/payment_gateway.py",
        ),
        ("`formatReceipt` rounds badly", "src/checkout/receipt.ts"),
        ("Products are missing in search results", "src/catalog/search.go"),
        ("Reserving more pieces than the warehouse has", "src/catalog/stock.rs"),
    ] {
        assert_eq!(first(&index, text), path, "{text}");
    }
}

#[test]
fn tests_and_documents_come_first_only_when_asked_for() {
    let (index, _cache) = open(&shop(), 1);
    assert_eq!(
        first(&index, "Flaky test: total of an empty basket is zero"),
        "tests/CartServiceTests.cs"
    );
    assert_eq!(
        first(&index, "Documentation of discounts: ten percent off with a voucher"),
        "docs/discounts.md"
    );
    assert_ne!(first(&index, "Discounts: ten percent off with a voucher"), "docs/discounts.md");
}

#[test]
fn every_file_says_why_it_is_there() {
    let (index, _cache) = open(&shop(), 2);
    for file in
        rank(&index, &Query::from_text("Voucher discount of the basket"), &Weights::default(), 3)
            .unwrap()
    {
        assert!(!file.reasons.is_empty(), "{}", file.path);
    }
    assert!(rank(&index, &Query::from_text(""), &Weights::default(), 5).unwrap().is_empty());
}

#[test]
fn the_packed_context_reads_well() {
    let (index, _cache) = open(&shop(), 2);
    let query =
        Query::from_text("Basket total is wrong\nThe sum over all lines ignores the quantity.");
    let ranked = rank(&index, &query, &Weights::default(), 3).unwrap();
    insta::assert_snapshot!(pack(&index, &query, &ranked, 800).unwrap().text);
    insta::assert_snapshot!(
        overview(&index, 300).replace(&shop().to_string_lossy().into_owned(), "ROOT")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_ranking_does_not_depend_on_threads_and_a_pack_never_exceeds_its_budget(
        words in proptest::collection::vec("(basket|total|voucher|card|receipt|search|stock|product|reserve|charge|zzz)", 1..8),
        threads in 1usize..5,
        budget in 0usize..1500,
    ) {
        let query = Query::from_text(&words.join(" "));
        let (one, _first) = open(&shop(), 1);
        let (other, _second) = open(&shop(), threads);
        let ranked = rank(&one, &query, &Weights::default(), 10).unwrap();
        prop_assert_eq!(&ranked, &rank(&other, &query, &Weights::default(), 10).unwrap());
        let packed = pack(&other, &query, &ranked, budget).unwrap();
        prop_assert!(packed.tokens <= budget);
        prop_assert_eq!(packed.tokens as u64, estimate_tokens(&packed.text));
        prop_assert!(estimate_tokens(&overview(&one, budget)) <= budget as u64);
    }
}
