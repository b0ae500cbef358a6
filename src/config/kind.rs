//! Defaults that depend on the kind of a source; `default.toml` shows those of Azure DevOps.

use toml::{Table, Value};

use super::keys::Keys;

/// Keys whose default differs in this kind.
fn defaults_of(kind: &str) -> &'static [(&'static str, &'static str)] {
    match kind {
        "github" => &[
            ("base_url", "https://api.github.com"),
            ("where", ""),
            ("token_env", "GITHUB_TOKEN"),
            ("api_version", ""),
        ],
        "jira" => {
            &[("where", "statusCategory != Done"), ("token_env", "JIRA_TOKEN"), ("api_version", "")]
        }
        "file" => &[("where", ""), ("token_env", ""), ("api_version", "")],
        _ => &[],
    }
}

/// Replaces values that are still Azure DevOps' defaults by those of each source's kind.
pub(super) fn adapt(values: &mut Table, keys: &Keys) {
    let (mut single, mut list) = (None, None);
    for (name, value) in values.iter_mut() {
        match name.as_str() {
            "source" => single = value.as_table_mut(),
            "sources" => list = value.as_array_mut(),
            _ => {}
        }
    }
    let listed = list.into_iter().flatten().filter_map(Value::as_table_mut);
    for source in listed.chain(single) {
        let kind = source.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        for (key, value) in defaults_of(&kind) {
            let default = keys.default_of(&format!("source.{key}"));
            if source.get(*key) == default {
                source.insert((*key).to_owned(), Value::String((*value).to_owned()));
            }
        }
    }
}
