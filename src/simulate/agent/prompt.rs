//! Parses a prompt for the scripted agent.

use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PromptItem {
    pub id: i64,
    /// Its first line.
    pub title: String,
    /// Its second line.
    pub facts: Vec<String>,
    pub text: String,
}

impl PromptItem {
    fn new(id: i64, text: &str) -> Self {
        let mut lines = text.lines();
        let title = lines.next().unwrap_or_default().trim().to_owned();
        let facts = lines.next().unwrap_or_default().split(" | ").map(str::to_owned).collect();
        Self { id, title, facts, text: text.to_owned() }
    }

    /// The number after `priority`.
    pub fn priority(&self) -> Option<i64> {
        self.facts.iter().find_map(|fact| fact.strip_prefix("priority ")?.parse().ok())
    }

    /// Such as `Bug`.
    pub fn kind(&self) -> &str {
        self.facts.first().map(String::as_str).unwrap_or_default()
    }

    /// The first offered value of each field.
    pub fn first_options(&self) -> Vec<i64> {
        let Some(options) =
            self.text.lines().last().and_then(|line| line.strip_prefix("options: "))
        else {
            return Vec::new();
        };
        let first = |field: &str| field.split_once(": ")?.1.split(' ').next()?.parse().ok();
        options.split("; ").filter_map(first).collect()
    }

    /// Those of its several code bases that its text names; `None` if it has only one.
    pub fn code_bases(&self) -> Option<Vec<&str>> {
        let names = self.text.lines().find_map(|line| line.strip_prefix("code bases: "))?;
        let said = self.text.split("code bases: ").next().unwrap_or_default();
        Some(names.split(", ").filter(|name| said.contains(name)).collect())
    }

    /// The last part of the area path.
    pub fn area(&self) -> Option<&str> {
        self.facts.iter().find_map(|fact| fact.rsplit_once('\\')).map(|(_, last)| last)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ParsedPrompt {
    /// Items to judge, in order.
    pub items: Vec<PromptItem>,
    deep: Option<PromptItem>,
    context: String,
}

impl ParsedPrompt {
    /// Parses the fences. The first opening line decides the name of all of them; a tag with
    /// another name is plain text.
    pub fn read(prompt: &str) -> Self {
        let mut parsed = Self::default();
        let Some(tag) = prompt.lines().find_map(opened_tag) else { return parsed };
        let (open, close) = (format!("<{tag} "), format!("</{tag}>"));
        let mut rest = prompt;
        while let Some(start) = rest.find(&open) {
            let inside = &rest[start + open.len()..];
            let Some((attribute, body)) = inside.split_once(">\n") else { break };
            let end = body.find(&close).unwrap_or(body.len());
            parsed.part(attribute, body[..end].trim(), prompt);
            rest = &body[end..];
        }
        parsed
    }

    fn part(&mut self, attribute: &str, body: &str, prompt: &str) {
        let value = attribute.split('"').nth(1).unwrap_or_default();
        match (attribute.split('=').next().unwrap_or_default(), value) {
            ("item", id) => {
                self.items.extend(id.parse().ok().map(|id| PromptItem::new(id, body)));
            }
            ("part", "item") => {
                self.deep = Some(PromptItem::new(first_number(prompt).unwrap_or_default(), body));
            }
            ("part", "context" | "overview") => {
                self.context.push_str(body);
                self.context.push('\n');
            }
            _ => {}
        }
    }

    /// The item of a deep analysis.
    pub fn deep_item(&self) -> Option<&PromptItem> {
        self.deep.as_ref()
    }

    /// Paths in the code overview, in order, without duplicates; with several code bases, those that
    /// begin with the name of one.
    pub fn paths(&self, code_bases: &[(String, PathBuf)]) -> Vec<String> {
        let mut paths: Vec<String> = Vec::new();
        let of_path = if code_bases.is_empty() { "_-./+@" } else { "_-./+@:" };
        let is_break = |c: char| !c.is_ascii_alphanumeric() && !of_path.contains(c);
        for word in self.context.split(is_break) {
            let word = word.trim_end_matches(['.', '/', '-', ':']);
            let own = |(name, _): &(String, PathBuf)| word.strip_prefix(name)?.strip_prefix(':');
            let bare = match code_bases {
                [] => Some(word),
                several => several.iter().find_map(own),
            };
            if bare.is_some_and(looks_like_a_path) && !paths.iter().any(|known| known == word) {
                paths.push(word.to_owned());
            }
        }
        paths
    }
}

/// Name and folder of each of several code bases, as a system prompt names them.
pub(super) fn code_bases_in(system_prompt: &str) -> Vec<(String, PathBuf)> {
    let list = system_prompt.split_once("in several code bases: ").map_or("", |(_, rest)| rest);
    let list = list.split(". A path is written").next().unwrap_or_default();
    let one = |entry: &str| {
        let (name, folder) = entry.trim_start_matches('`').split_once("` is ")?;
        let folder = if folder == "the working directory" { "." } else { folder };
        Some((name.to_owned(), PathBuf::from(folder)))
    };
    list.split(", `").filter_map(one).collect()
}

fn opened_tag(line: &str) -> Option<&str> {
    let (tag, _) = line.strip_prefix('<')?.split_once(' ')?;
    tag.starts_with("data-").then_some(tag)
}

fn first_number(prompt: &str) -> Option<i64> {
    let words = prompt.split(|c: char| !c.is_ascii_digit());
    words.filter(|word| !word.is_empty()).find_map(|word| word.parse().ok())
}

fn looks_like_a_path(word: &str) -> bool {
    let (stem, extension) = word.rsplit_once('.').unwrap_or((word, ""));
    let is_extension = (1..=5).contains(&extension.len())
        && extension.starts_with(|c: char| c.is_ascii_alphabetic());
    let stays_inside = !word.starts_with('/') && !word.split('/').any(|part| part == "..");
    is_extension && stays_inside && stem.contains(|c: char| c.is_ascii_alphabetic())
}

/// The schema inside a prompt that contains everything in one text.
pub(super) fn schema_in(prompt: &str) -> Option<serde_json::Value> {
    let (_, rest) = prompt.split_once("# Form of the answer")?;
    let schema = rest.split("\n\n# Question\n").next()?;
    serde_json::from_str(&schema[schema.find('{')?..]).ok()
}
