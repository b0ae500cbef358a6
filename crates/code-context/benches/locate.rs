//! Does the context name and show the right places? Real issues, at the commit before their fix.
//!
//! `cargo bench --bench locate -- SET TREES [--terms words|identifiers|both] [--tokens N]
//! [--repos a/b,c/d] [--dump FILE] [--choices FILE] [--answers FILE]`
//!
//! SET holds `instances.jsonl`, one object per line: `id`, `repo`, `query_file` (relative to SET; the
//! first line is the title), `gold` (the files that the fix changed) and `gold_lines` (for each of
//! them the ranges of lines that changed); and, for `--terms`, `terms.jsonl` with `id`, `words` and
//! `identifiers`. TREES/ID is the code base of an instance at the commit before the fix. Indexes are
//! kept in TREES.index, so a second run is warm. `--dump` writes the signals of the candidates of
//! each instance, to fit weights outside. `--choices` writes what the locate step would show of each
//! instance whose first file is not certain; `--answers` reads what a reader chose from that: `id`
//! and `files`, each with `path` and `functions`, best first.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a measurement for people")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use code_context::{
    Chosen, Index, Options, Query, RankedFile, Subject, Weights, choices, is_confident,
    pack_chosen, rank, reorder, scored, shown_lines,
};
use serde::Deserialize;

const KS: [usize; 5] = [1, 3, 5, 10, 20];
/// Ranked files that a deep session and the locate step are offered.
const OFFERED: usize = 30;
/// Candidates of each instance that are dumped.
const DUMPED: usize = 300;

#[derive(Deserialize)]
struct Instance {
    id: String,
    repo: String,
    query_file: String,
    gold: Vec<String>,
    #[serde(default)]
    gold_lines: BTreeMap<String, Vec<(usize, usize)>>,
}

#[derive(Deserialize, Default)]
struct Terms {
    id: String,
    #[serde(default)]
    words: Vec<String>,
    #[serde(default)]
    identifiers: Vec<String>,
}

struct Setup {
    set: PathBuf,
    trees: PathBuf,
    terms: String,
    tokens: usize,
    repos: String,
    dump: String,
    choices: String,
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    id: String,
    files: Vec<AnsweredFile>,
}

#[derive(Deserialize)]
struct AnsweredFile {
    path: String,
    #[serde(default)]
    functions: Vec<String>,
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [set, trees, ..] = &arguments[..] else {
        println!("usage: locate SET TREES [--terms KIND] [--tokens N] [--repos A,B] [--dump FILE]");
        return;
    };
    let flag = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).cloned().unwrap_or_default()
    };
    let setup = Setup {
        set: set.into(),
        trees: trees.into(),
        terms: flag("--terms"),
        tokens: flag("--tokens").parse().unwrap_or(5250),
        repos: flag("--repos"),
        dump: flag("--dump"),
        choices: flag("--choices"),
        answers: lines(Path::new(&flag("--answers"))),
    };
    if !setup.choices.is_empty() {
        std::fs::write(&setup.choices, "").expect("a file for the choices");
    }
    run(&setup);
}

fn run(setup: &Setup) {
    let instances: Vec<Instance> = lines(&setup.set.join("instances.jsonl"));
    let terms: Vec<Terms> = lines(&setup.set.join("terms.jsonl"));
    let mut results = Vec::new();
    let mut dump = (!setup.dump.is_empty())
        .then(|| std::fs::File::create(&setup.dump).expect("a file for the dump"));
    for instance in &instances {
        let wanted = setup.repos.is_empty() || setup.repos.split(',').any(|r| r == instance.repo);
        if !wanted || !setup.trees.join(&instance.id).is_dir() {
            continue;
        }
        let terms = terms.iter().find(|terms| terms.id == instance.id);
        results.push(measure(setup, instance, terms, dump.as_mut()));
    }
    report(&results);
}

/// The terms of an instance that were asked for.
fn chosen(kind: &str, terms: Option<&Terms>) -> Vec<String> {
    let Some(terms) = terms else { return Vec::new() };
    match kind {
        "words" => terms.words.clone(),
        "identifiers" => terms.identifiers.clone(),
        "both" => terms.words.iter().chain(&terms.identifiers).cloned().collect(),
        _ => Vec::new(),
    }
}

/// What came of one instance.
struct Outcome {
    repo: String,
    /// Places of the gold files in the ranking, from zero; none where one is not in it.
    places: Vec<Option<usize>>,
    /// Is a gold file named, is one shown with code, is a changed line visible?
    named: bool,
    shown: bool,
    visible: bool,
    /// Share of the packed bytes under gold files.
    useful: f64,
    tokens: usize,
    took: Duration,
}

fn measure(
    setup: &Setup,
    instance: &Instance,
    terms: Option<&Terms>,
    dump: Option<&mut std::fs::File>,
) -> Outcome {
    let text = std::fs::read_to_string(setup.set.join(&instance.query_file)).expect("a query");
    let subject = Subject::from_text(&text).with_terms(chosen(&setup.terms, terms));
    let query = Query::of(&subject);
    let root = setup.trees.join(&instance.id);
    let cache = setup.trees.with_extension("index");
    let started = Instant::now();
    let (index, _) = Index::open_or_build(&root, &cache, &Options::default()).expect("an index");
    let ranked = rank(&index, &query, &Weights::default(), OFFERED).expect("a ranking");
    let took = started.elapsed();
    if !setup.choices.is_empty() && !is_confident(&ranked) {
        write_choices(setup, instance, &text, &index, &query, &ranked);
    }
    let answer = setup.answers.iter().find(|answer| answer.id == instance.id);
    let files = answer.map(|answer| answer.files.as_slice()).unwrap_or_default();
    let chosen: Vec<Chosen> = files
        .iter()
        .map(|file| Chosen { path: file.path.clone(), functions: file.functions.clone() })
        .collect();
    let ranked = reorder(ranked, &chosen);
    let packed = pack_chosen(&index, &query, &ranked, &chosen, setup.tokens).expect("a context");
    if let Some(file) = dump {
        write_dump(file, instance, &index, &query);
    }
    let place = |gold: &String| ranked.iter().position(|file: &RankedFile| &file.path == gold);
    let shown = shown_lines(&packed.text);
    let changed = |gold: &String| {
        let ranges = instance.gold_lines.get(gold).map(Vec::as_slice).unwrap_or_default();
        ranges.iter().any(|(first, last)| has_line(shown.get(gold), *first, *last))
    };
    Outcome {
        repo: instance.repo.clone(),
        places: instance.gold.iter().map(place).collect(),
        named: instance.gold.iter().any(|gold| packed.text.contains(gold.as_str())),
        shown: instance.gold.iter().any(|gold| shown.contains_key(gold)),
        visible: instance.gold.iter().any(changed),
        useful: share(&packed.text, &instance.gold),
        tokens: packed.tokens,
        took,
    }
}

fn has_line(lines: Option<&Vec<usize>>, first: usize, last: usize) -> bool {
    lines.is_some_and(|lines| lines.iter().any(|line| (first..=last.max(first)).contains(line)))
}

/// Share of a packed text's bytes that is code of these files.
fn share(text: &str, gold: &[String]) -> f64 {
    let (mut is_gold, mut bytes) = (false, 0);
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("## ") {
            is_gold = gold.iter().any(|gold| path.split(" [").next() == Some(gold));
        } else if is_gold && line.starts_with('|') {
            bytes += line.len() + 1;
        }
    }
    bytes as f64 / text.len().max(1) as f64
}

fn write_dump(file: &mut std::fs::File, instance: &Instance, index: &Index, query: &Query) {
    let (all, order) = scored(index, query, &Weights::default()).expect("signals");
    let is_gold = |number: usize| instance.gold.contains(&index.files()[number].path);
    let candidates =
        order.iter().enumerate().filter(|(place, (_, number))| *place < DUMPED || is_gold(*number));
    for (_, (score, number)) in candidates {
        let entry = &index.files()[*number];
        let row = serde_json::json!([
            instance.id,
            instance.repo,
            u8::from(is_gold(*number)),
            entry.kind.name(),
            entry.path,
            score,
            all[*number].values(),
        ]);
        writeln!(file, "{row}").expect("a row of the dump");
    }
}

fn write_choices(
    setup: &Setup,
    instance: &Instance,
    text: &str,
    index: &Index,
    query: &Query,
    ranked: &[RankedFile],
) {
    let offered = choices(index, query, ranked).expect("choices");
    let offered: Vec<[&str; 2]> =
        offered.iter().map(|choice| [choice.path.as_str(), choice.about.as_str()]).collect();
    let row = serde_json::json!({ "id": instance.id, "text": text, "files": offered });
    let mut file = std::fs::OpenOptions::new().append(true).open(&setup.choices).expect("a file");
    writeln!(file, "{row}").expect("a row of the choices");
}

fn report(results: &[Outcome]) {
    println!("{}", row("all", results));
    let mut repos: Vec<&str> = results.iter().map(|result| result.repo.as_str()).collect();
    repos.sort_unstable();
    repos.dedup();
    for repo in repos {
        let of: Vec<&Outcome> = results.iter().filter(|result| result.repo == repo).collect();
        println!("{}", row(repo, of));
    }
}

fn row<'a>(name: &str, results: impl IntoIterator<Item = &'a Outcome>) -> String {
    let results: Vec<&Outcome> = results.into_iter().collect();
    let count = results.len().max(1) as f64;
    let share = |test: &dyn Fn(&Outcome) -> bool| {
        100.0 * results.iter().filter(|result| test(result)).count() as f64 / count
    };
    let hits = KS.map(|k| share(&|r| r.places.iter().any(|p| p.is_some_and(|p| p < k))));
    let all = share(&|r| r.places.iter().all(|p| p.is_some_and(|p| p < 10)));
    let mut times: Vec<Duration> = results.iter().map(|result| result.took).collect();
    times.sort_unstable();
    let useful = 100.0 * results.iter().map(|result| result.useful).sum::<f64>() / count;
    let tokens = results.iter().map(|result| result.tokens).sum::<usize>() / results.len().max(1);
    format!(
        "{name:<40} n {:>3} hit@1 {:>5.1} @3 {:>5.1} @5 {:>5.1} @10 {:>5.1} @20 {:>5.1} all@10 {all:>5.1} | named {:>5.1} shown {:>5.1} line {:>5.1} useful {useful:>4.1} tokens {tokens} | {:.0?} {:.0?}",
        results.len(),
        hits[0],
        hits[1],
        hits[2],
        hits[3],
        hits[4],
        share(&|r| r.named),
        share(&|r| r.shown),
        share(&|r| r.visible),
        times.get(times.len() / 2).copied().unwrap_or_default(),
        times.last().copied().unwrap_or_default(),
    )
}

fn lines<T: serde::de::DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of the set")).collect()
}
