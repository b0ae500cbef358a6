use std::collections::BTreeMap;

use super::*;
use crate::model::{Effort, FileReference, FileRole, Risk};

/// A code base in memory; the index knows its words.
struct Memory {
    files: BTreeMap<&'static str, Vec<u8>>,
    work_tree: BTreeMap<&'static str, &'static str>,
}

impl Memory {
    fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.files.iter().map(|(path, bytes)| (*path, String::from_utf8_lossy(bytes).into_owned()))
    }
}

impl Code for Memory {
    fn commit(&self) -> Option<&str> {
        Some("c0ffee")
    }

    fn file(&self, path: &str) -> File {
        assert!(stays_inside(path), "asked about {path}");
        self.files.get(path).map_or(File::Missing, |bytes| File::of(bytes))
    }

    fn in_work_tree(&self, path: &str) -> File {
        self.work_tree.get(path).map_or(File::Missing, |text| File::of(text.as_bytes()))
    }

    fn knows(&self, name: &str) -> Option<bool> {
        Some(self.texts().any(|(_, text)| names::occurs_in(name, &text)))
    }

    fn files_with(&self, words: &[&str], most: usize) -> Vec<String> {
        let has = |text: &str| words.iter().all(|word| text.contains(word));
        self.texts()
            .filter(|(_, text)| has(text))
            .map(|(path, _)| path.to_owned())
            .take(most)
            .collect()
    }

    fn role(&self, path: &str) -> Role {
        match path.split('/').next() {
            Some("test") => Role::Test,
            Some("vendor" | "docs") => Role::Other,
            _ => Role::Product,
        }
    }

    fn has_file_named(&self, end: &str) -> bool {
        self.files.keys().any(|path| names::ends_with_path(path, end))
    }
}

fn code() -> Memory {
    let latin = b"// Gr\xf6\xdfe der Sendung\nint groesse = 1;\n".to_vec();
    let wide: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain("let wide_text = 42;\r\n".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let huge = "0123456789abcdef\n".repeat(1_000) + "the_needle_in_it();\n";
    let files = [
        ("src/total.ts", b"import { round } from \"./round\";\n\nexport function lineTotal(price: number) {\n\treturn round(price * 100) / 100;\n}\n\nexport function cartTotal(lines: Line[]) {\n  return round(sum(lines.map(lineTotal)));\n}\n".to_vec()),
        ("src/round.ts", b"export const round = (value: number) => Math.round(value);\r\n".to_vec()),
        ("src/old.ts", b"// return roundTwice(price) / 2;\n/* first\n   const ledger = openLedger(7);\n*/\nconst note = \"sendReceipt(order) was here\";\nexport const four = a - -b;\n".to_vec()),
        ("src/ledger.kt", b"class Ledger {\n    fun balance() = 0\n}\n\nval log = Log.close()\n".to_vec()),
        ("src/base.kt", b"open class Base {\n    fun addLine() = 1\n}\n".to_vec()),
        ("src/cart.kt", b"class Cart : Base() {\n    fun sum() = addLine()\n}\n".to_vec()),
        ("src/shelf.kt", b"enum class Shelf { LOW, HIGH }\n// see Cart\nfun openShelf() = 2\n".to_vec()),
        ("src/pen.java", b"class Pen implements Ink {\n    void dipPen() {}\n}\n".to_vec()),
        ("src/brush.java", b"interface Ink {}\n\nclass Brush implements Ink {}\n".to_vec()),
        ("vendor/lib.ts", b"export const vendored = withCare(1, 2, 3);\n".to_vec()),
        ("docs/notes.md", b"`removedLongAgo()` was removed.\n".to_vec()),
        ("src/copy.ts", b"export function other() {\n  return somethingElse(1, 2);\n}\n".to_vec()),
        ("test/total.test.ts", b"it(\"rounds half up\", () => {\n  expect(lineTotal(1.005)).toBe(1.01);\n});\n".to_vec()),
        ("old/latin.c", latin),
        ("old/wide.js", wide),
        ("old/many.js", b"if (a) { return null; }\n".repeat(1_000)),
        ("old/huge.txt", huge.into_bytes()),
        ("logo.png", vec![0x89, b'P', 0, 0, 1]),
    ];
    Memory {
        files: files.into(),
        work_tree: [("src/total.ts", "const notCommitted = true;\n")].into(),
    }
}

fn entry(path: &str, line: u32, quote: &str) -> Evidence {
    Evidence {
        path: path.into(),
        line,
        last_line: line,
        quote: quote.into(),
        ..Evidence::default()
    }
}

fn finding(evidence: Vec<Evidence>) -> Finding {
    Finding {
        evidence,
        summary: "The total is rounded twice.".into(),
        likely_causes: vec!["`lineTotal` rounds each line, `cartTotal` the sum [1].".into()],
        files: vec![FileReference {
            path: "src/total.ts".into(),
            role: Some(FileRole::Change),
            read: None,
            reason: "sums up".into(),
            exists: None,
        }],
        suggested_change: "Round once, in `cartTotal`.".into(),
        risk: Risk::Low,
        effort: Effort::Small,
        confidence: Confidence::High,
        open_questions: Vec::new(),
        tests: vec!["existing: `test/total.test.ts` `rounds half up`".into()],
        pitfalls: Vec::new(),
        not_checked: Vec::new(),
        patch: String::new(),
        patch_test: String::new(),
        proof: None,
    }
}

fn good() -> Finding {
    finding(vec![entry("src/total.ts", 4, "return round(price * 100) / 100;")])
}

fn checked(mut finding: Finding) -> Finding {
    let seen = Seen { read: Some(vec!["src/total.ts".into()]), item: "See `reportedName`".into() };
    check(&mut finding, &code(), &seen, Timestamp::UNIX_EPOCH);
    finding
}

fn standing(evidence: Evidence) -> (Standing, Evidence) {
    let finding = checked(finding(vec![evidence]));
    let entry = finding.evidence[0].clone();
    (entry.standing.clone().unwrap(), entry)
}

fn doubted(finding: &Finding) -> Vec<(&str, &str)> {
    let proof = finding.proof.as_ref().unwrap();
    proof.doubts.iter().map(|doubt| (doubt.place.as_str(), doubt.claim.as_str())).collect()
}

#[test]
fn a_true_finding_is_cited_and_keeps_everything() {
    let before = good();
    let after = checked(before.clone());
    let proof = after.proof.clone().unwrap();
    assert_eq!(
        (proof.rung(), proof.doubts.len(), after.confidence),
        (Rung::Cited, 0, Confidence::High)
    );
    assert_eq!(proof.commit(), Some("c0ffee"));
    assert_eq!(after.files[0].read, Some(true));
    assert_eq!(after.evidence[0].standing, Some(Standing::Confirmed));
    assert_eq!((after.summary, after.likely_causes), (before.summary, before.likely_causes));
}

#[test]
fn a_quote_is_confirmed_moved_in_another_file_or_not_found() {
    let is = |path, line, quote| standing(entry(path, line, quote)).0;
    let not = |why| Standing::NotFound { why };
    let quote = "return round(price * 100) / 100;";
    assert_eq!(is("src/total.ts", 4, "  return round( price*100 ) / 100;"), Standing::Confirmed);
    let (moved, entry) = standing(entry("src/total.ts", 40, quote));
    assert_eq!((moved, entry.line, entry.last_line), (Standing::Moved { named: 40 }, 4, 4));
    for wrong in ["src/round.ts", "src/renamed.ts"] {
        let (elsewhere, entry) = standing(super::tests::entry(wrong, 4, quote));
        assert_eq!(elsewhere, Standing::InAnotherFile { named: wrong.into() });
        assert_eq!((entry.path.as_str(), entry.line), ("src/total.ts", 4));
    }
    assert_eq!(
        is("src/total.ts", 4, "return round(price * 1000) / 1000;"),
        not(Unfound::NotInFile)
    );
    assert_eq!(is("src/gone.ts", 4, "const invented = frobnicate();"), not(Unfound::NoSuchFile));
    assert_eq!(is("src/total.ts", 5, "}"), not(Unfound::TooShort));
    assert_eq!(is("../secret.txt", 1, "password = 12345678"), not(Unfound::Outside));
    assert_eq!(is("/etc/passwd", 1, "root:x:0:0:root:/root"), not(Unfound::Outside));
    assert_eq!(is("logo.png", 1, "return round(price * 1)"), not(Unfound::NotText));
    assert_eq!(is("src/total.ts", 1, "const notCommitted = true;"), not(Unfound::Uncommitted));
}

#[test]
fn encodings_line_ends_and_repetitions_have_an_answer() {
    let is = |path, line, quote| standing(entry(path, line, quote)).0;
    assert_eq!(is("old/latin.c", 1, "// Gr\u{f6}\u{df}e der Sendung"), Standing::Confirmed);
    assert_eq!(is("old/latin.c", 1, "// Gr\u{fffd}\u{fffd}e der Sendung"), Standing::Confirmed);
    assert_eq!(is("old/wide.js", 1, "let wide_text = 42;"), Standing::Confirmed);
    assert_eq!(
        is("src/round.ts", 1, "export const round = (value: number) => Math.round(value);"),
        Standing::Confirmed
    );
    assert_eq!(is("old/huge.txt", 1_001, "the_needle_in_it();"), Standing::Confirmed);
    assert_eq!(is("old/many.js", 500, "if (a) { return null; }"), Standing::Confirmed);
    let everywhere = Standing::NotFound { why: Unfound::Everywhere };
    assert_eq!(is("old/many.js", 5_000, "if (a) { return null; }"), everywhere);
}

#[test]
fn an_invented_finding_is_unproven_and_nothing_invented_stays() {
    let mut invented = good();
    invented.evidence =
        vec![entry("src/total.ts", 99_999, "ledger.frobnicateLedger(entries, true);")];
    invented.summary = "The ledger is wrong. `frobnicateLedger()` drops entries.".into();
    invented.likely_causes =
        vec!["`frobnicateLedger()` drops entries [1].".into(), "It is so [1].".into()];
    invented.suggested_change = "1. Open the file.\n2. In `frobnicateLedger`, keep them.".into();
    invented.tests = vec!["existing: `test/total.test.ts` `frobnicates the ledger`".into()];
    invented.files[0].path = "src/ledger.ts".into();
    let after = checked(invented);
    assert!(after.is_unproven());
    assert_eq!(after.confidence, Confidence::Low);
    assert_eq!(after.proof.as_ref().unwrap().said, Confidence::High);
    assert_eq!(after.summary, "The ledger is wrong.");
    assert_eq!(after.suggested_change, "1. Open the file.");
    assert!(after.likely_causes.is_empty() && after.tests.is_empty() && after.files.is_empty());
    let places: Vec<&str> = doubted(&after).into_iter().map(|(place, _)| place).collect();
    for place in ["evidence", "summary", "likely_causes", "suggested_change", "tests", "files"] {
        assert!(places.contains(&place), "{place} of {places:?}");
    }
    let question = question(&after.proof.unwrap().doubts).unwrap();
    assert!(
        question.contains("frobnicateLedger") && question.contains("src/ledger.ts"),
        "{question}"
    );
}

#[test]
fn names_from_the_item_and_of_the_change_are_not_doubted() {
    let mut finding = good();
    finding.summary = "The reporter's `reportedName` is `cartTotal`.".into();
    finding.suggested_change =
        "Add a helper `roundOnce` in `src/helpers/once.ts`.\nCall `roundOnce` from `cartTotal`."
            .into();
    finding.tests = vec!["new: `rounds once` in `test/total.test.ts`".into()];
    finding.files.push(FileReference {
        path: "src/helpers/once.ts".into(),
        reason: "New file for the helper.".into(),
        ..finding.files[0].clone()
    });
    let after = checked(finding);
    assert_eq!(doubted(&after), []);
    assert_eq!(after.files.len(), 2);
    assert_eq!(after.files[1].exists, Some(false));
}

#[test]
fn a_finding_that_claims_nothing_is_not_doubted_but_not_proven_either() {
    let mut open = finding(Vec::new());
    open.likely_causes.clear();
    open.summary = "It could not be determined where the total is rounded.".into();
    open.suggested_change = "Ask the reporter.".into();
    let after = checked(open);
    assert_eq!(doubted(&after), []);
    assert!(after.is_unproven());
    assert_eq!(question(&after.proof.unwrap().doubts), None);
}

#[test]
fn a_patch_applies_or_the_finding_stays_a_rung_lower() {
    let patch = "--- a/src/total.ts\n+++ b/src/total.ts\n@@ -3,3 +3,3 @@\n export function lineTotal(price: number) {\n-\treturn round(price * 100) / 100;\n+\treturn roundOnce(price);\n }\n";
    let with = |patch: &str| checked(Finding { patch: patch.into(), ..good() });
    assert_eq!(with(patch).rung(), Some(Rung::Applies));
    let after = with(&patch.replace("lineTotal", "linesTotal"));
    assert_eq!(after.rung(), Some(Rung::Cited));
    assert_eq!(doubted(&after), [("patch", "the patch")]);
    let proof = after.proof.unwrap();
    assert!(proof.step(Rung::Applies).unwrap().note.contains("does not fit"));
}

#[test]
fn evidence_that_falls_takes_a_cause_that_rests_on_it_alone() {
    let mut finding = good();
    finding.evidence.push(entry("src/total.ts", 8, "return ceil(sum(lines));"));
    finding.likely_causes =
        vec!["The one [1].".into(), "The other [2].".into(), "Both [1, 2].".into()];
    let after = checked(finding);
    assert_eq!(after.likely_causes, ["The one [1].", "Both [1, 2]."]);
    assert_eq!(after.confidence, Confidence::Low, "half of what it cites is not there");
}

/// What somebody would try who wants an untrue claim confirmed.
#[test]
fn what_only_looks_like_evidence_is_not_found() {
    let is = |path, line, quote| standing(entry(path, line, quote)).0;
    let not = |why| Standing::NotFound { why };
    for (what, path, line, quote, why) in [
        ("commented out", "src/old.ts", 1, "return roundTwice(price) / 2;", Unfound::Comment),
        ("in a block comment", "src/old.ts", 3, "const ledger = openLedger(7);", Unfound::Comment),
        ("words run together", "src/old.ts", 6, "exportconst four = a - -b;", Unfound::NotInFile),
        ("signs run together", "src/old.ts", 6, "export const four = a--b;", Unfound::NotInFile),
        ("brackets", "src/total.ts", 5, "}\n\n{ ( ) }", Unfound::TooShort),
        ("white space", "src/total.ts", 2, " \n\t ", Unfound::TooShort),
        ("crumbs", "src/total.ts", 1, "import\n...\nreturn\n...\n}", Unfound::TooShort),
        (
            "a look-alike",
            "src/total.ts",
            4,
            "return r\u{43e}und(price * 100) / 100;",
            Unfound::NotInFile,
        ),
        (
            "unreadable",
            "src/total.ts",
            4,
            "return \u{fffd}round(price * 100) / 100;",
            Unfound::NotInFile,
        ),
        (
            "only vendored",
            "src/total.ts",
            1,
            "export const vendored = withCare(1, 2, 3);",
            Unfound::NotInFile,
        ),
        ("only in a test", "src/total.ts", 1, "rounds half up", Unfound::NotInFile),
        ("the item's own words", "src/total.ts", 1, "See `reportedName`", Unfound::NotInFile),
    ] {
        assert_eq!(is(path, line, quote), not(why), "{what}");
    }
    // With its mark it is what it says, and where it is it may be cited.
    assert_eq!(is("src/old.ts", 1, "// return roundTwice(price) / 2;"), Standing::Confirmed);
    let cited = "export const vendored = withCare(1, 2, 3);";
    assert_eq!(is("vendor/lib.ts", 1, cited), Standing::Confirmed);
    let (swapped, entry) = standing(Evidence {
        last_line: 2,
        ..super::tests::entry("src/total.ts", 9, "return round(price * 100) / 100;")
    });
    assert_eq!((swapped, entry.line, entry.last_line), (Standing::Moved { named: 9 }, 4, 4));
}

#[test]
fn names_in_strings_documents_and_disguise_are_not_in_the_code() {
    let with = |cause: &str| {
        let mut finding = good();
        finding.likely_causes.push(cause.into());
        let after = checked(finding);
        doubted(&after).into_iter().map(|(_, claim)| claim.to_owned()).collect::<Vec<_>>()
    };
    for (cause, doubts) in [
        ("`sendReceipt()` is called twice [1].", vec!["`sendReceipt`"]),
        ("`removedLongAgo()` is called twice [1].", vec!["`removedLongAgo`"]),
        ("`c\u{430}rtTotal` rounds twice [1].", vec!["`c\u{430}rtTotal`"]),
        ("There is no guard in `frobnicateLedger` [1].", vec!["`frobnicateLedger`"]),
        ("It is called by `frobnicateLedger` [1].", vec!["`frobnicateLedger`"]),
        ("`cartTotal()` calls `lineTotal(x)` [1].", vec![]),
        ("The text `sendReceipt` is shown [1].", vec![]),
    ] {
        assert_eq!(with(cause), doubts, "{cause}");
    }
    let mut finding = good();
    finding.suggested_change = "Add a check to `frobnicateLedger`.".into();
    finding.likely_causes.push("`frobnicateLedger` rounds twice [1].".into());
    assert_eq!(checked(finding).likely_causes.len(), 1, "a place is not a proposal");
}

#[test]
fn names_are_claims_as_people_write_them() {
    let with = |cause: &str| {
        let mut finding = good();
        finding.likely_causes.push(cause.into());
        let after = checked(finding);
        doubted(&after).into_iter().map(|(_, claim)| claim.to_owned()).collect::<Vec<_>>()
    };
    for (cause, doubts) in [
        ("frobnicateLedger() drops cents [1].", vec!["`frobnicateLedger`"]),
        ("lineTotal() is called by cartTotal [1].", vec![]),
        ("`CartTotal` rounds [1].", vec!["`CartTotal`"]),
        ("It reads `max-cart-size` [1].", vec!["`max-cart-size`"]),
        ("It reads `line-total` [1].", vec![]),
        ("See `frobnicator.ts` [1].", vec!["`frobnicator.ts`"]),
        ("See `total.ts`, imported from `../src/round.js` [1].", vec![]),
        ("It was `src/sums.ts` before [1].", vec![]),
        ("`Ledger.close` drops it, `Ledger.balance` not [1].", vec!["`close`"]),
        (
            "`Cart.openShelf` is slow, `Shelf.openShelf` and `Cart.addLine` not [1].",
            vec!["`openShelf`"],
        ),
        ("`Brush.dipPen` is slow, `Pen.dipPen` not [1].", vec!["`dipPen`"]),
        ("The `:fallthrough` option is right [1].", vec!["`fallthrough`"]),
        ("`Ledger.toString` and `Intl.supportedValuesOf` are right [1].", vec![]),
    ] {
        assert_eq!(with(cause), doubts, "{cause}");
    }
}

#[test]
fn a_type_that_many_files_use_is_known_by_the_file_that_the_finding_names() {
    let mut code = code();
    let path = |number| &*format!("src/uses{number}.kt").leak();
    code.files.extend((0..70).map(|number| (path(number), b"val ledger = Ledger()\n".to_vec())));
    code.files.insert("src/ledger.kt", b"val log = Log.close()\n".to_vec());
    code.files.insert("src/books.kt", b"class Ledger {\n    fun balance() = 0\n}\n".to_vec());
    let doubts = |path: &str, line, quote: &str| {
        let mut finding = finding(vec![entry(path, line, quote)]);
        finding.likely_causes = vec!["`Ledger.close` drops it, `Ledger.balance` not [1].".into()];
        super::doubts(&finding, &code, &Seen::default())
    };
    let used = doubts("src/uses1.kt", 1, "val ledger = Ledger()");
    assert_eq!(used, [], "its declaration is one of very many files");
    let declared = doubts("src/books.kt", 2, "fun balance() = 0");
    assert_eq!(declared.len(), 1, "{declared:?}");
    assert_eq!(declared[0].claim, "`close`");
}

#[test]
fn what_a_plan_acts_upon_or_stands_beside_is_there() {
    let with = |change: &str| {
        let mut finding = good();
        finding.suggested_change = change.into();
        let after = checked(finding);
        doubted(&after).into_iter().map(|(_, claim)| claim.to_owned()).collect::<Vec<_>>()
    };
    for (change, doubts) in [
        ("The `:fallthrough` option must not be affected.", vec!["`fallthrough`"]),
        ("Call the existing helper `roundTotals` there.", vec!["`roundTotals`"]),
        ("Add `roundOnce` after `roundTotals`.", vec!["`roundTotals`"]),
        ("Add a method `roundOnce` like `roundTotals`.", vec!["`roundTotals`"]),
        ("Remove `String.roundTotals()`.", vec!["`roundTotals`"]),
        ("Replace `roundTotals(x)` by `roundOnce(x)`.", vec!["`roundTotals`"]),
        ("Use `roundOnce` in `lineTotal`; `cartTotal` stays.", vec![]),
    ] {
        assert_eq!(with(change), doubts, "{change}");
    }
}

#[test]
fn a_test_exists_by_its_whole_name_where_it_is_said_to_be() {
    let with = |test: &str| {
        let mut finding = good();
        finding.tests = vec![test.into()];
        checked(finding).tests.len()
    };
    assert_eq!(with("existing: `test/total.test.ts` `rounds half up`"), 1);
    assert_eq!(with("existing: `rounds half up`"), 1);
    assert_eq!(with("existing: `it('rounds half up')` in test/total.test.ts"), 1);
    assert_eq!(with("existing: `it('rounds half down')`"), 0, "a declaration");
    assert_eq!(with("existing: `rounds half up` in test/totals.test.ts"), 0, "a path in prose");
    assert_eq!(with("existing: TestRoundsHalfUp"), 0, "a name in prose");
    assert_eq!(with("existing: `rounds half`"), 0, "a part of a name");
    assert_eq!(with("existing: `src/copy.ts` `rounds half up`"), 0, "in another file");
    assert_eq!(with("existing: `cartTotal`"), 0, "code of the product is no test");
    assert_eq!(with("'rounds half up' in `test/total.test.ts` stays"), 1, "a title in quotes");
    assert_eq!(with("The example 'rounds half down always' stays"), 0, "no such title");
    assert_eq!(
        with("`test_sum` in `test/total.test.ts`; add a new case"),
        0,
        "a clause of its own"
    );
    assert_eq!(with("New test with `Shelf.HIGH`"), 1);
    assert_eq!(with("New test with `put(Shelf.MIDDLE)`"), 0, "a new test brings no member along");
    assert_eq!(with("New test with `--dry-run`"), 0, "nor an option");
}

#[test]
fn a_file_that_is_not_there_is_new_only_if_that_is_said_of_it() {
    let with = |reason: &str| {
        let mut finding = good();
        finding.files[0].path = "src/ledger.ts".into();
        finding.files[0].reason = reason.into();
        checked(finding).files.len()
    };
    assert_eq!(with("Handles new orders."), 0);
    assert_eq!(with("New file for the ledger."), 1);
    assert_eq!(with("To be created."), 1);
}
