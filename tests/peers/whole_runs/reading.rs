//! Analysis on the sample code base: the prompt alone names the files, and they can be read.

use std::collections::BTreeMap;

use heartbeat::simulate::sample;
use serde_json::{Value, json};

use super::world::{World, asked_about, is_triage};
use support::answers::{finding, verdicts};
use support::messages_api::{Reply, Request};

/// The file of each item's defect, known from the sample.
const DEFECTS: [(&str, &str); 6] = [
    ("Rate for parcels of exactly 20 kg", "api/src/services/rateCalculator.ts"),
    ("Volumetric weight ignores", "api/src/services/rateCalculator.ts"),
    ("Address normalizer drops", "api/src/services/addressNormalizer.ts"),
    ("CarrierSync processes the same page", "worker/Parcel.Worker/CarrierSync.cs"),
    ("RetryQueue loses messages", "worker/Parcel.Worker/RetryQueue.cs"),
    ("Session token is accepted", "api/src/middleware/auth.ts"),
];

/// The files named in the prompt, in order: the reader knows nothing else of the code.
fn named_files(request: &Request) -> Vec<String> {
    let prompt = request.user_texts().concat();
    let context = prompt.split("part=\"context\">").nth(1).unwrap_or_default();
    let context = context.split("\n</").next().unwrap_or_default();
    let named = context.lines().filter_map(|line| {
        let path = line.strip_prefix("- ").or_else(|| line.strip_prefix("## "))?;
        path.split_whitespace().next()
    });
    let mut files: Vec<String> = Vec::new();
    for path in named.filter(|path| path.contains('.')) {
        if !files.iter().any(|known| known == path) {
            files.push(path.to_owned());
        }
    }
    files
}

/// Tool results in a request: what was read.
fn results(request: &Request) -> Vec<&Value> {
    let messages = request.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    blocks.filter(|block| block["type"] == "tool_result").collect()
}

/// Reads the first five files that the prompt names, then answers with them.
fn read_and_answer(request: &Request) -> Reply {
    let files = named_files(request);
    let first: Vec<&str> = files.iter().take(5).map(String::as_str).collect();
    match results(request).is_empty() {
        true => {
            Reply::Tools(first.iter().map(|path| ("Read", json!({ "file_path": path }))).collect())
        }
        false => Reply::structured(finding(&first)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_analysis_finds_every_file_it_needs_by_the_paths_in_its_prompt() {
    let world = World::new(|request| match is_triage(request) {
        true => Reply::structured(verdicts(asked_about(request), usize::MAX)),
        false => read_and_answer(request),
    });
    let Some(world) = world.await else { return };
    std::fs::remove_dir_all(world.code()).unwrap();
    sample::write_to(&world.code()).unwrap();
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{:#}\n{}", said.json, said.stderr);

    let contents: BTreeMap<&str, &str> = sample::FILES.into_iter().collect();
    let requests = world.api.requests();
    let deep: Vec<&Request> = requests.iter().filter(|request| !is_triage(request)).collect();
    let answered: Vec<&&Request> = deep.iter().filter(|one| !results(one).is_empty()).collect();
    assert_eq!(answered.len(), 10, "every analysis of the run has read");
    for request in deep.iter() {
        assert_eq!(request.tools(), ["Read", "StructuredOutput"], "nothing else is on offer");
    }
    for request in answered {
        let files = named_files(request);
        let read = results(request);
        assert_eq!(read.len(), files.len().min(5), "{files:?}");
        for result in read {
            // The loopback API numbers the calls of one answer.
            let id = result["tool_use_id"].as_str().unwrap();
            let path = &files[id.trim_start_matches("toolu_").parse::<usize>().unwrap()];
            assert_ne!(result["is_error"], true, "{path}: {result:#}");
            let content = contents[path.as_str()];
            let shown = result.to_string();
            for line in content.lines().map(str::trim).filter(|line| line.len() > 12) {
                let line = json!(line).to_string();
                assert!(
                    shown.contains(line.trim_matches('"')),
                    "{path}: {line} is missing: {shown}"
                );
            }
        }
    }
    let mut known = 0;
    for request in &deep {
        let prompt = request.user_texts().concat();
        let item = prompt.split("part=\"verdict\"").next().unwrap_or_default();
        for (words, file) in DEFECTS.iter().filter(|(words, _)| item.contains(words)) {
            let files = named_files(request);
            assert!(files.iter().take(5).any(|path| path == file), "{words}: {files:?}");
            known += 1;
        }
    }
    assert!(known >= 4, "the items of the sample were analysed");
    for finding in said.json["findings"].as_array().unwrap() {
        let files = finding["finding"]["files"].as_array().unwrap();
        assert!(files.iter().all(|file| file["exists"] == true), "{finding:#}");
    }
}

/// The first prompts of triage and of analysis, if triage gives these terms to every item.
async fn first_prompts(terms: &'static [&'static str]) -> Option<(Request, Request)> {
    let world = World::new(move |request| match is_triage(request) {
        true => {
            let mut answer = verdicts(asked_about(request), 1);
            for verdict in answer["verdicts"].as_array_mut().unwrap() {
                verdict["terms"] = json!(terms);
            }
            Reply::structured(answer)
        }
        false => read_and_answer(request),
    });
    let world = world.await?;
    std::fs::remove_dir_all(world.code()).unwrap();
    sample::write_to(&world.code()).unwrap();
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{:#}\n{}", said.json, said.stderr);
    let requests = world.api.requests();
    let first = |triage| requests.iter().find(|request| is_triage(request) == triage).cloned();
    Some((first(true).unwrap(), first(false).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terms_of_triage_reach_the_ranking_and_the_deep_prompt() {
    const MEANT: &str = "api/src/services/addressNormalizer.ts";
    let terms = &["addressNormalizer", "normalize address", "postcode"];
    let Some((triage, deep)) = first_prompts(terms).await else { return };
    assert!(triage.user_texts().concat().contains("part=\"code\">\nRepository repository:"));
    assert!(deep.user_texts().concat().contains("searched for: addressNormalizer, normalize"));
    // The item itself names the rate calculator, which stays first.
    let (with, without) = (named_files(&deep), named_files(&first_prompts(&[]).await.unwrap().1));
    assert!(with.iter().take(2).any(|path| path == MEANT), "{with:?}");
    assert!(!without.iter().take(2).any(|path| path == MEANT), "{without:?}");
}

/// An item in German, and triage's answer to it.
const GERMAN: &str = "Wartende Nachrichten gehen beim Anhalten des Dienstes verloren";

#[tokio::test(flavor = "multi_thread")]
async fn an_item_in_german_finds_the_file_of_its_english_twin() {
    let world = World::new(|request| match is_triage(request) {
        true => {
            // Its number is the highest; it is the one to analyse.
            let mut asked = asked_about(request);
            asked.sort_unstable_by(|a, b| b.cmp(a));
            let mut answer = verdicts(asked, 1);
            for verdict in answer["verdicts"].as_array_mut().unwrap() {
                verdict["terms"] = json!(["retry queue", "waiting message", "worker stop"]);
            }
            Reply::structured(answer)
        }
        false => read_and_answer(request),
    });
    let Some(world) = world.await else { return };
    std::fs::remove_dir_all(world.code()).unwrap();
    sample::write_to(&world.code()).unwrap();
    let description = "<p>Nach einem Neustart ist die Warteschlange leer.</p>";
    world.simulator.add_item(&[
        ("System.Title", json!(GERMAN)),
        ("System.WorkItemType", json!("Bug")),
        ("System.State", json!("New")),
        ("Microsoft.VSTS.Common.Priority", json!(1)),
        ("Microsoft.VSTS.TCM.ReproSteps", json!(description)),
    ]);
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{:#}\n{}", said.json, said.stderr);
    let requests = world.api.requests();
    let is_german =
        |request: &&Request| !is_triage(request) && request.user_texts().concat().contains(GERMAN);
    let deep = requests.iter().find(is_german).expect("its analysis");
    assert_eq!(named_files(deep)[0], "worker/Parcel.Worker/RetryQueue.cs");
}
