//! `source.where` for GitHub: which issues to watch, in the syntax of its search box (pure).

use super::wire::GithubIssue;

/// A condition; every term must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter(Vec<FilterTerm>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FilterTerm {
    subject: TermSubject,
    /// Any of these, in lower case.
    values: Vec<String>,
    wanted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TermSubject {
    Label,
    Type,
    State,
    Milestone,
    Assignee,
}

impl Filter {
    /// Parses terms such as `label:bug,crash -label:"won't fix" type:Bug`; empty: every issue.
    pub fn parse(text: &str) -> Result<Self, String> {
        words(text)?.iter().map(|word| FilterTerm::parse(word)).collect::<Result<_, _>>().map(Self)
    }

    pub fn matches(&self, issue: &GithubIssue) -> bool {
        self.0.iter().all(|term| term.holds(issue) == term.wanted)
    }
}

impl FilterTerm {
    fn parse(word: &str) -> Result<Self, String> {
        let (wanted, term) = match word.strip_prefix('-') {
            Some(term) => (false, term),
            None => (true, word),
        };
        let (name, value) = term.split_once(':').unwrap_or((term, ""));
        let subject = match name.to_ascii_lowercase().as_str() {
            "label" => TermSubject::Label,
            "type" => TermSubject::Type,
            "state" | "is" => TermSubject::State,
            "milestone" => TermSubject::Milestone,
            "assignee" => TermSubject::Assignee,
            _ => {
                return Err(format!(
                    "has the unknown term {word:?}; write label:NAME, type:NAME, state:open, \
                     milestone:NAME or assignee:NAME, with a leading `-` to exclude issues"
                ));
            }
        };
        let values = value.split(',').map(|value| value.trim().to_lowercase());
        let values: Vec<String> = values.filter(|value| !value.is_empty()).collect();
        if values.is_empty() {
            return Err(format!("has a term without a value: {word:?}"));
        }
        Ok(Self { subject, values, wanted })
    }

    fn holds(&self, issue: &GithubIssue) -> bool {
        let is_one = |text: &str| self.values.contains(&text.to_lowercase());
        match self.subject {
            TermSubject::Label => issue.labels.iter().any(|label| is_one(label.name())),
            TermSubject::Type => {
                issue.kind.as_ref().and_then(|kind| kind.name.as_deref()).is_some_and(is_one)
            }
            TermSubject::State => issue.state.as_deref().is_some_and(is_one),
            TermSubject::Milestone => {
                issue.milestone.as_ref().and_then(|one| one.title.as_deref()).is_some_and(is_one)
            }
            TermSubject::Assignee => {
                issue.assignees.iter().flatten().any(|account| is_one(&account.login))
            }
        }
    }
}

/// Splits at spaces; quotes keep a word together and are removed.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for character in text.chars() {
        match character {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    if quoted {
        return Err("has an unclosed quote".to_owned());
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Ok(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn terms_are_those_of_the_search_box() {
        let issue: GithubIssue = serde_json::from_value(json!({
            "number": 1, "state": "open", "type": { "name": "Bug" },
            "labels": [{ "name": "Crash" }, "needs triage"], "milestone": { "title": "v2" },
            "assignees": [{ "login": "ann" }],
        }))
        .unwrap();
        for (text, expected) in [
            ("", true),
            ("label:crash", true),
            ("label:\"needs triage\" type:bug", true),
            ("label:docs,crash", true),
            ("label:docs", false),
            ("-label:crash", false),
            ("-label:wontfix state:open", true),
            ("is:closed", false),
            ("milestone:v2 assignee:ANN", true),
        ] {
            assert_eq!(Filter::parse(text).unwrap().matches(&issue), expected, "{text}");
        }
        for wrong in ["[System.State] <> 'Closed'", "crash", "label:", "label:\"a"] {
            assert!(Filter::parse(wrong).is_err(), "{wrong}");
        }
    }
}
