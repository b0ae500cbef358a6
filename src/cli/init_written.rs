//! What `heartbeat init` wrote, and the next steps.

use std::path::PathBuf;

use serde::Serialize;
use toml::Value;

use super::init_sources::{NamedSource, credential_of};

#[derive(Debug, Serialize)]
pub struct Written {
    /// `None` if the file is only printed.
    pub file: Option<PathBuf>,
    /// Required keys without a value.
    pub still_to_set: Vec<String>,
    /// The variable for the agent's credential.
    pub credential: &'static str,
    /// The file's text, if it is only printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The variables for the trackers' credentials.
    pub tracker: String,
    /// What was understood differently than it was written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Written {
    pub fn render(&self) -> String {
        let Some(file) = &self.file else { return self.text.clone().unwrap_or_default() };
        let missing = match self.still_to_set.is_empty() {
            true => String::new(),
            false => format!("set {} in it, ", self.still_to_set.join(", ")),
        };
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        format!(
            "{notes}Wrote {}.\nNext: {missing}export {tracker} and {credential}, then\n  \
             heartbeat doctor             check the setup\n  \
             heartbeat --dry-run          see what a run would do; nothing is started or written\n  \
             {FIRST_RESULT}\n                               \
             a first result: what changed in the last two days\n  \
             heartbeat service install    from then on by itself\n",
            file.display(),
            tracker = self.tracker,
            credential = self.credential,
        )
    }
}

/// With the default of `init`, the first run only marks existing items as seen.
const FIRST_RESULT: &str =
    "heartbeat --once --set schedule.first_run=process --set source.look_back=2d";

/// Required keys that were not given.
pub(super) fn still_to_set(answers: &[(String, Value)], sources: &[NamedSource]) -> Vec<String> {
    let given = |key: &str| answers.iter().any(|(answered, _)| answered == key);
    let several = sources.iter().zip(1..).filter(|_| sources.len() > 1);
    let missing = |(source, number): (&NamedSource, i32)| {
        let project = source.project.as_deref().unwrap_or_default();
        project.is_empty().then(|| format!("sources[{number}].project"))
    };
    let missing: Vec<String> = several.filter_map(missing).collect();
    let of_source = ["source.base_url", "source.project"].into_iter().filter(|_| sources.len() < 2);
    let other = answers.iter().any(|(key, value)| {
        key == "agent.kind" && value.as_str().is_some_and(|kind| kind != "claude")
    });
    let models = ["triage.model", "analyze.model"].into_iter().filter(|_| other);
    let required = of_source.chain(["repository.path"]).chain(models);
    let required = required.filter(|key| !given(key)).map(str::to_owned);
    missing.into_iter().chain(required).collect()
}

/// The variables of all trackers.
pub(super) fn trackers(answers: &[(String, Value)], sources: &[NamedSource]) -> String {
    let kind = answers.iter().rev().find(|(key, _)| key == "source.kind");
    let kind = kind.and_then(|(_, value)| value.as_str());
    let mut variables = match sources {
        [_] => vec![credential_of(kind)],
        several => several.iter().map(|source| credential_of(source.kind())).collect(),
    };
    let mut seen = std::collections::HashSet::new();
    variables.retain(|variable| seen.insert(*variable));
    variables.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_to_do_leaves_out_what_is_done() {
        let given = ("source.project".to_owned(), Value::from("P"));
        let one = [NamedSource::default()];
        assert_eq!(still_to_set(&[given], &one), ["source.base_url", "repository.path"]);
    }
}
