//! The right file is first, on a small sample code base; and a context stays within its budget.

use std::path::{Path, PathBuf};

use code_context::estimate_tokens;
use code_context::{
    Index, Options, Part, Query, Weights, overview, pack, pack_all, rank, rank_all,
};
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

/// One of several code bases has the words only by chance: alone, its best file looks as good as any.
#[test]
fn files_of_several_code_bases_are_in_one_ranking_and_one_budget() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("other/src/report.py", "def weekly_report():\n    # a basket of words\n    pass\n");
    for number in 0..20 {
        write(&format!("other/src/page{number}.py"), "def render_page():\n    pass\n");
    }
    write(
        "client/src/basketTotal.ts",
        "export const basketTotal = (quantity: number) => quantity;\n",
    );
    let (shop, _a) = open(&shop(), 1);
    let (other, _b) = open(&folder.path().join("other"), 1);
    let (client, _c) = open(&folder.path().join("client"), 1);
    let query =
        Query::from_text("Basket total is wrong\nThe sum over all lines ignores the quantity.");
    let parts = [("other", &other), ("shop", &shop), ("client", &client)]
        .map(|(name, index)| Part { name, index });
    let ranked = rank_all(&parts, &query, &Weights::default(), 30).unwrap();
    let place = |path: &str| {
        let found = ranked.iter().position(|file| file.path == path);
        found.unwrap_or_else(|| panic!("{path} is not in {ranked:#?}"))
    };
    let by_chance = place("other:src/report.py");
    for wanted in ["shop:src/cart/CartService.cs", "client:src/basketTotal.ts"] {
        assert!(place(wanted) < by_chance, "{ranked:#?}");
    }
    for budget in [100, 400, 2_000] {
        let packed = pack_all(&parts, &query, &ranked, &[], budget).unwrap();
        assert!(packed.tokens <= budget, "{}", packed.text);
        assert!(packed.files.iter().all(|path| path.contains(':')), "{:?}", packed.files);
    }
    let packed = pack_all(&parts, &query, &ranked, &[], 2_000).unwrap().text;
    assert!(packed.contains("\n## shop:src/cart/CartService.cs\n"), "{packed}");
    assert!(packed.contains("\n## client:src/basketTotal.ts\n"), "{packed}");
    // One code base needs no name, and several lists are not needed for it.
    let alone = rank_all(&[Part::only(&shop)], &query, &Weights::default(), 30).unwrap();
    assert_eq!(alone, rank(&shop, &query, &Weights::default(), 30).unwrap());
}
