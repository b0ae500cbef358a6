//! The part of the query language that clients use here.

use std::iter::Peekable;

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::tracker_data::{JiraData, JiraRecord};

/// Maximum nesting of brackets.
const MAX_DEPTH: usize = 20;

#[derive(Debug)]
pub struct JqlQuery {
    condition: Option<JqlCondition>,
    /// The result contains only issues that changed since.
    pub from: Timestamp,
    pub by_change: bool,
}

#[derive(Debug)]
enum JqlCondition {
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Is { field: String, values: Vec<String>, wanted: bool },
    Empty { field: String, wanted: bool },
    Contains { words: String, wanted: bool },
    Since(Timestamp),
    Before(Timestamp),
}

impl JqlQuery {
    /// Parses a query; errors have the service's text.
    pub fn parse(text: &str, board: &JiraData, takes_numbers: bool) -> Result<Self, String> {
        let (condition, order) = split_order(text);
        let mut parser =
            JqlParser { tokens: tokens(condition)?.into_iter().peekable(), board, takes_numbers };
        let condition = match parser.tokens.peek() {
            Some(_) => Some(parser.any(0)?),
            None => None,
        };
        if let Some(left) = parser.tokens.next() {
            return Err(format!(
                "Error in the JQL Query: Expecting either 'OR' or 'AND' but got '{left}'."
            ));
        }
        let from = condition.as_ref().map_or(Timestamp::MIN, earliest);
        Ok(Self { condition, from, by_change: order.to_lowercase().contains("updated asc") })
    }

    pub fn is_unbounded(&self) -> bool {
        self.condition.is_none()
    }

    pub fn matches(&self, issue: &JiraRecord) -> bool {
        self.condition.as_ref().is_none_or(|condition| condition.holds(issue))
    }
}

/// The earliest change that can match a condition.
fn earliest(condition: &JqlCondition) -> Timestamp {
    match condition {
        JqlCondition::Since(at) => *at,
        JqlCondition::And(parts) => parts.iter().map(earliest).max().unwrap_or(Timestamp::MIN),
        _ => Timestamp::MIN,
    }
}

impl JqlCondition {
    fn holds(&self, issue: &JiraRecord) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.holds(issue)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(issue)),
            Self::Not(part) => !part.holds(issue),
            Self::Since(at) => issue.updated >= *at,
            Self::Before(at) => issue.updated < *at,
            Self::Contains { words, wanted } => {
                issue.summary.to_lowercase().contains(words) == *wanted
            }
            Self::Empty { field, wanted } => own_values(field, issue).is_empty() == *wanted,
            Self::Is { field, values, wanted } => {
                let own = own_values(field, issue);
                // Like the service: what has no value is in no list, and not outside of one either.
                let can_be_empty = matches!(field.as_str(), "labels" | "component" | "assignee");
                if own.is_empty() && can_be_empty {
                    return false;
                }
                own.iter().any(|own| values.contains(&own.to_lowercase())) == *wanted
            }
        }
    }
}

fn own_values(field: &str, issue: &JiraRecord) -> Vec<String> {
    match field {
        "project" => vec![issue.project.clone()],
        "id" | "issue" | "key" | "issuekey" => vec![issue.id.to_string(), issue.key()],
        "status" => vec![issue.status.clone()],
        "statuscategory" => vec![
            match issue.category() {
                "new" => "To Do",
                "done" => "Done",
                _ => "In Progress",
            }
            .to_owned(),
            issue.category().to_owned(),
        ],
        "issuetype" | "type" => vec![issue.kind.clone()],
        "priority" => vec![issue.priority.clone()],
        "labels" => issue.labels.clone(),
        "component" => issue.components.clone(),
        "assignee" => issue.assignee.iter().cloned().collect(),
        // The only saved filter: open bugs.
        _ => {
            let is_open_bug = issue.kind == "Bug" && issue.category() != "done";
            if is_open_bug { vec!["10100".to_owned(), "open bugs".to_owned()] } else { vec![] }
        }
    }
}

const FIELDS: [&str; 15] = [
    "project",
    "id",
    "issue",
    "key",
    "issuekey",
    "status",
    "statuscategory",
    "issuetype",
    "type",
    "priority",
    "labels",
    "component",
    "assignee",
    "filter",
    "updated",
];

fn split_order(text: &str) -> (&str, &str) {
    let lower = text.to_ascii_lowercase();
    match lower.rfind("order by") {
        Some(at) => text.split_at(at),
        None => (text, ""),
    }
}

/// Words, quoted texts (marked by a leading `"`), and signs.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            _ if character.is_whitespace() => {}
            '(' | ')' | ',' | '~' => tokens.push(character.to_string()),
            '=' | '!' | '<' | '>' => {
                let mut sign = character.to_string();
                sign.extend(characters.next_if(|next| matches!(next, '=' | '~')));
                tokens.push(sign);
            }
            '"' | '\'' => {
                let mut words = String::from('"');
                loop {
                    match characters.next() {
                        Some('\\') => words.extend(characters.next()),
                        Some(end) if end == character => break,
                        Some(other) => words.push(other),
                        None => {
                            return Err(
                                "Error in the JQL Query: The quoted string has not been completed."
                                    .into(),
                            );
                        }
                    }
                }
                tokens.push(words);
            }
            other => {
                let mut word = other.to_string();
                while let Some(next) =
                    characters.next_if(|c| !c.is_whitespace() && !"(),=!<>~\"'".contains(*c))
                {
                    word.push(next);
                }
                tokens.push(word);
            }
        }
    }
    Ok(tokens)
}

struct JqlParser<'a> {
    tokens: Peekable<std::vec::IntoIter<String>>,
    board: &'a JiraData,
    takes_numbers: bool,
}

impl JqlParser<'_> {
    fn is_next(&mut self, word: &str) -> bool {
        self.tokens.next_if(|token| token.eq_ignore_ascii_case(word)).is_some()
    }

    fn any(&mut self, depth: usize) -> Result<JqlCondition, String> {
        let mut parts = vec![self.all(depth)?];
        while self.is_next("or") {
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { JqlCondition::Or(parts) })
    }

    fn all(&mut self, depth: usize) -> Result<JqlCondition, String> {
        let mut parts = vec![self.one(depth)?];
        while self.is_next("and") {
            parts.push(self.one(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { JqlCondition::And(parts) })
    }

    fn one(&mut self, depth: usize) -> Result<JqlCondition, String> {
        if depth > MAX_DEPTH {
            return Err("Error in the JQL Query: it is too complex.".into());
        }
        if self.is_next("not") {
            return Ok(JqlCondition::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.is_next("(") {
            let inside = self.any(depth + 1)?;
            return if self.is_next(")") { Ok(inside) } else { Err(unexpected_end()) };
        }
        let field = self.tokens.next().ok_or_else(unexpected_end)?;
        let field = field.trim_start_matches('"').to_lowercase();
        let sign = self.tokens.next().ok_or_else(unexpected_end)?.to_lowercase();
        if matches!(field.as_str(), "summary" | "text") {
            let words = self.value()?.to_lowercase();
            return Ok(JqlCondition::Contains { words, wanted: sign == "~" });
        }
        if !FIELDS.contains(&field.as_str()) {
            return Err(format!(
                "Field '{field}' does not exist or you do not have permission to view it."
            ));
        }
        if field == "updated" {
            let raw = self.tokens.next().ok_or_else(unexpected_end)?;
            let at = self.date(&raw)?;
            return Ok(if sign.starts_with('>') {
                JqlCondition::Since(at)
            } else {
                JqlCondition::Before(at)
            });
        }
        if sign == "is" {
            let wanted = !self.is_next("not");
            let value = self.value()?.to_lowercase();
            return match value.as_str() {
                "empty" | "null" => Ok(JqlCondition::Empty { field, wanted }),
                _ => Err("Error in the JQL Query: 'is' takes only EMPTY.".into()),
            };
        }
        let (values, wanted) = self.values(&sign)?;
        let values = if field == "project" { self.projects(values)? } else { values };
        let values = values.into_iter().map(|value| value.to_lowercase()).collect();
        Ok(JqlCondition::Is { field, values, wanted })
    }

    fn values(&mut self, sign: &str) -> Result<(Vec<String>, bool), String> {
        match sign {
            "=" => Ok((vec![self.value()?], true)),
            "!=" => Ok((vec![self.value()?], false)),
            "in" => Ok((self.list()?, true)),
            "not" if self.is_next("in") => Ok((self.list()?, false)),
            other => {
                Err(format!("Error in the JQL Query: The operator '{other}' is not supported."))
            }
        }
    }

    fn value(&mut self) -> Result<String, String> {
        let token = self.tokens.next().ok_or_else(unexpected_end)?;
        Ok(token.strip_prefix('"').map_or(token.clone(), str::to_owned))
    }

    fn list(&mut self) -> Result<Vec<String>, String> {
        if !self.is_next("(") {
            return Err(unexpected_end());
        }
        let mut values = vec![self.value()?];
        while self.is_next(",") {
            values.push(self.value()?);
        }
        if self.is_next(")") { Ok(values) } else { Err(unexpected_end()) }
    }

    /// Projects by their current keys.
    fn projects(&self, names: Vec<String>) -> Result<Vec<String>, String> {
        names
            .into_iter()
            .map(|name| {
                let missing =
                    || format!("The value '{name}' does not exist for the field 'project'.");
                self.board.project(&name).ok_or_else(missing)
            })
            .collect()
    }

    /// Milliseconds, or a quoted date: to the minute, in the account's time zone.
    fn date(&self, raw: &str) -> Result<Timestamp, String> {
        let wrong = || {
            format!(
                "Date value '{}' for field 'updated' is invalid. Valid formats include: \
                 'yyyy/MM/dd HH:mm', 'yyyy-MM-dd HH:mm', 'yyyy/MM/dd', 'yyyy-MM-dd', or a period \
                 format e.g. '-5d', '4w 2d'.",
                raw.trim_start_matches('"')
            )
        };
        if let Ok(ms) = raw.parse::<i64>() {
            let at = Timestamp::from_millisecond(ms).ok().filter(|_| self.takes_numbers);
            return at.ok_or_else(wrong);
        }
        let text = raw.strip_prefix('"').ok_or_else(wrong)?;
        let text = if text.len() == 10 { format!("{text} 00:00") } else { text.to_owned() };
        let local =
            DateTime::strptime("%Y-%m-%d %H:%M", text.replace('/', "-")).map_err(|_| wrong())?;
        let there = local.to_zoned(self.board.zone.clone()).map_err(|_| wrong())?;
        Ok(there.timestamp())
    }
}

fn unexpected_end() -> String {
    "Error in the JQL Query: The query ended unexpectedly.".to_owned()
}
