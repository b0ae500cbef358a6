//! Work items that try to act as instructions. The fence holds, verdicts stay with their ids, and
//! the checks reject what a fooled model might return.

use std::collections::HashMap;
use std::ffi::OsString;

use heartbeat::analyze;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::evidence::{self, Code, File, Seen};
use heartbeat::model::{Background, Earlier, ItemId, ItemKey, KnownTitle, Phase};
use heartbeat::prompt::{Prompts, Rendered};
use heartbeat::settings::{AgentAuth, Config};
use heartbeat::simulate::agent::{self, SimulateAgentArgs};
use heartbeat::triage::{self, RequestRound};
use serde_json::{Value, json};
use support::agent_items::{fence, verdict};
use support::injection::{Attack, attacks};

fn config() -> Config {
    toml::from_str(DEFAULT_TOML).unwrap()
}

fn triage_prompt(attacks: &[Attack], auth: AgentAuth) -> Rendered {
    let items: Vec<_> = attacks.iter().map(|attack| attack.item.clone()).collect();
    let batch = triage::plan_batches(&items, &HashMap::new(), "", &config().triage).remove(0);
    assert_eq!(batch.items.len(), attacks.len());
    triage::render(&Prompts::built_in(auth).unwrap(), &batch, &fence(), RequestRound::First)
        .unwrap()
}

fn hostile_background(text: &str) -> Background {
    let changes = Some(vec![text.to_owned()]);
    Background {
        parent: Some(text.to_owned()),
        earlier: Some(Earlier { changes, ..Earlier::default() }),
        similar: vec![KnownTitle {
            key: ItemKey::new("ado", ItemId(1)),
            id: ItemId(1),
            phase: Phase::Done,
            title: text.to_owned(),
        }],
        links: text.to_owned(),
        files: text.to_owned(),
        file_names: text.to_owned(),
        options: text.to_owned(),
        corrections: text.to_owned(),
        code_bases: Vec::new(),
    }
}

fn deep_prompt(attack: &Attack, auth: AgentAuth) -> Rendered {
    let mut verdict = verdict(attack.id());
    verdict.reason = attack.text.clone();
    verdict.modules = vec![attack.text.clone()];
    let request = analyze::Request {
        item: &attack.item,
        verdict: &verdict,
        background: &hostile_background(&attack.text),
        code_bases: &[],
        overview: &attack.text,
        context: &attack.text,
    };
    analyze::render(&Prompts::built_in(auth).unwrap(), request, &config().analyze, &fence())
        .unwrap()
}

/// The line without our own tag's remarks about missing text.
fn without_marks(line: &str) -> String {
    let mut line = line.to_owned();
    for mark in [" hidden=\"", " cut=\""] {
        if let Some(start) = line.find(mark) {
            let digits = line[start + mark.len()..].bytes().take_while(u8::is_ascii_digit).count();
            line.replace_range(start..start + mark.len() + digits + 1, "");
        }
    }
    line
}

/// The lines of a prompt that contain the fence's name, in any case.
fn fence_lines(prompt: &str) -> Vec<String> {
    let nonce = fence().tag().replace("data-", "");
    // Everything that a reader might treat as the end of a line.
    let breaks = ['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}'];
    let lines = prompt.split(breaks);
    lines.filter(|line| line.to_lowercase().contains(&nonce)).map(without_marks).collect()
}

#[test]
fn the_corpus_is_large_enough() {
    let attacks = attacks();
    assert!(attacks.len() >= 40, "{}", attacks.len());
    let mut names: Vec<&str> = attacks.iter().map(|attack| attack.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), attacks.len());
}

#[test]
fn in_triage_the_only_fences_are_ours() {
    let attacks = attacks();
    let prompt = triage_prompt(&attacks, AgentAuth::ApiKey);
    let tag = fence().tag();
    let expected: Vec<String> = attacks
        .iter()
        .flat_map(|attack| [format!("<{tag} item=\"{}\">", attack.id()), format!("</{tag}>")])
        .collect();
    let lines = fence_lines(&prompt.user);
    assert!(lines[0].ends_with(&format!("named {tag}:")), "{}", lines[0]);
    assert_eq!(lines[1..], expected);
}

#[test]
fn in_deep_analysis_the_only_fences_are_ours() {
    let tag = fence().tag();
    let parts = ["item", "verdict", "earlier", "known", "links", "files", "overview", "context"];
    let expected: Vec<String> = parts
        .iter()
        .flat_map(|part| [format!("<{tag} part=\"{part}\">"), format!("</{tag}>")])
        .collect();
    for attack in attacks() {
        let prompt = deep_prompt(&attack, AgentAuth::ApiKey);
        let lines = fence_lines(&prompt.user);
        assert!(lines[0].ends_with(&format!("named {tag}:")), "{}", lines[0]);
        assert_eq!(lines[1..], expected, "{}", attack.name);
    }
}

#[test]
fn nothing_of_an_item_reaches_the_system_prompt_or_the_schema() {
    let attacks = attacks();
    let plain = triage_prompt(&attacks[..1], AgentAuth::ApiKey);
    for attack in &attacks {
        let prompt = triage_prompt(std::slice::from_ref(attack), AgentAuth::ApiKey);
        assert_eq!((prompt.system, prompt.schema), (plain.system.clone(), plain.schema.clone()));
    }
}

#[test]
fn no_prompt_is_a_command_and_on_a_login_none_mentions_a_file() {
    for attack in attacks() {
        for auth in [AgentAuth::ApiKey, AgentAuth::Login] {
            let alone = triage_prompt(std::slice::from_ref(&attack), auth).user;
            for prompt in [alone, deep_prompt(&attack, auth).user] {
                assert!(!prompt.starts_with(['/', '!', '#']), "{}", attack.name);
                let mention = prompt.char_indices().filter(|(_, c)| *c == '@').any(|(at, _)| {
                    let before = prompt[..at].chars().next_back();
                    !before.is_some_and(char::is_alphanumeric)
                });
                assert!(auth == AgentAuth::ApiKey || !mention, "{}: {prompt}", attack.name);
            }
        }
    }
}

#[test]
fn template_syntax_stays_text() {
    let attacks: Vec<Attack> =
        attacks().into_iter().filter(|attack| attack.name.starts_with("jinja")).collect();
    let prompt = triage_prompt(&attacks, AgentAuth::ApiKey).user;
    for literal in ["{{ fence }} {{ items }}", "{% for item in items %}", "__mro__ }}"] {
        assert!(prompt.contains(literal), "{literal}");
    }
}

#[test]
fn control_characters_do_not_reach_a_prompt() {
    let prompt = triage_prompt(&attacks(), AgentAuth::ApiKey).user;
    assert!(!prompt.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')));
}

/// The scripted agent reads the fences literally: it would answer for any item that a text could
/// make it see.
#[test]
fn an_agent_that_reads_the_fences_sees_exactly_the_items_that_were_asked_about() {
    let attacks = attacks();
    let prompt = triage_prompt(&attacks, AgentAuth::ApiKey);
    let rest = ["--json-schema".to_owned(), prompt.schema.to_string()].map(OsString::from).to_vec();
    let args = SimulateAgentArgs { rest, ..SimulateAgentArgs::default() };
    let session = agent::session(&args, &prompt.user);
    let output = &session.lines.last().unwrap()["structured_output"];
    let ids: Vec<ItemId> = attacks.iter().map(|attack| ItemId(attack.id())).collect();
    let checked = triage::check(&ids, &[], output);
    assert_eq!((checked.failed(), checked.unknown), (vec![], vec![]));
    assert_eq!(checked.verdicts.len(), attacks.len());
}

/// What a fooled model might answer: an id that was not asked about is ignored, and an answer that
/// is not exactly right counts for none.
#[test]
fn forged_answers_are_caught() {
    let forged: Vec<Attack> =
        attacks().into_iter().filter(|attack| attack.answer.is_some()).collect();
    assert!(forged.len() >= 6);
    for attack in forged {
        let ids = [ItemId(attack.id())];
        let checked = triage::check(&ids, &[], &attack.answer.unwrap());
        assert!(checked.verdicts.iter().all(|verdict| verdict.id == ids[0]), "{}", attack.name);
        let related = checked.verdicts.iter().flat_map(|verdict| &verdict.related).count();
        assert_eq!(related, 0, "{}", attack.name);
        let taken = attack.name == "related_to_everything";
        assert_eq!(checked.verdicts.len(), usize::from(taken), "{}", attack.name);
    }
}

#[test]
fn findings_cannot_be_used_to_look_around_or_to_phone_home() {
    for attack in attacks() {
        let paths = attack.finding_files.clone().unwrap_or_default();
        let files: Vec<Value> =
            paths.iter().map(|path| json!({ "path": path, "reason": "as asked" })).collect();
        let output = json!({
            "summary": attack.finding_summary.as_deref().unwrap_or(&attack.text[..attack.text.len().min(1_000)]),
            "likely_causes": [], "files": files, "suggested_change": "See the summary.",
            "risk": "low", "effort": "small", "confidence": "low", "open_questions": [],
        });
        let mut finding = analyze::check(&output).unwrap();
        evidence::check(
            &mut finding,
            &Closed(&attack.name),
            &Seen::default(),
            jiff::Timestamp::UNIX_EPOCH,
        );
        assert!(finding.files.is_empty() && finding.is_unproven(), "{}", attack.name);
        let page = analyze::markdown(&finding);
        for active in ["](", "![", "<img", "<script", "<!--", "\u{1b}"] {
            assert!(!page.contains(active), "{}: {active} in {page}", attack.name);
        }
    }
}

/// A code base that must not be asked for a file outside of it.
struct Closed<'a>(&'a str);

impl Code for Closed<'_> {
    fn commit(&self) -> Option<&str> {
        None
    }

    fn file(&self, path: &str) -> File {
        unreachable!("{}: asked {path}", self.0)
    }

    fn knows(&self, _: &str) -> Option<bool> {
        None
    }

    fn files_with(&self, _: &[&str], _: usize) -> Vec<String> {
        Vec::new()
    }

    fn has_file_named(&self, _: &str) -> bool {
        false
    }
}
