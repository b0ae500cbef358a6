//! Prompts: templates, the fence around untrusted text, and the schema of the answer.
//!
//! The templates in `prompts/` are built into the program; the configuration can replace those of
//! triage and analysis. They are strict: an unknown variable is an error at start. Work-item text is only ever a
//! value, never a template. The JSON schemas next to them are used both for the agent's flag and
//! for our own validation.

mod fence;
mod item;
pub mod schema;

use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, context};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::model::estimate_tokens;
use crate::settings::{AgentAuth, Config};

pub use fence::{Fence, neutralise_mentions};
pub use item::{Detail, ItemText, cut_to_tokens, earlier_text, item_text, known_text};

pub const TRIAGE_SCHEMA: &str = include_str!("../../prompts/triage.schema.json");

pub const LOCATE_SCHEMA: &str = include_str!("../../prompts/locate.schema.json");

pub const DEEP_SCHEMA: &str = include_str!("../../prompts/deep.schema.json");

/// Limit of the agent's standard input.
const MAX_PROMPT_BYTES: usize = 10_000_000;

/// Stands for the text of an item when templates are checked.
const SAMPLE_ITEM: &str = "sample-text-of-an-item";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    TriageSystem,
    TriageUser,
    LocateSystem,
    LocateUser,
    DeepSystem,
    DeepUser,
}

impl Template {
    pub const ALL: [Self; 6] = [
        Self::TriageSystem,
        Self::TriageUser,
        Self::LocateSystem,
        Self::LocateUser,
        Self::DeepSystem,
        Self::DeepUser,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::TriageSystem => "triage.system.md",
            Self::TriageUser => "triage.user.md",
            Self::LocateSystem => "locate.system.md",
            Self::LocateUser => "locate.user.md",
            Self::DeepSystem => "deep.system.md",
            Self::DeepUser => "deep.user.md",
        }
    }

    const fn built_in(self) -> &'static str {
        match self {
            Self::TriageSystem => include_str!("../../prompts/triage.system.md"),
            Self::TriageUser => include_str!("../../prompts/triage.user.md"),
            Self::LocateSystem => include_str!("../../prompts/locate.system.md"),
            Self::LocateUser => include_str!("../../prompts/locate.user.md"),
            Self::DeepSystem => include_str!("../../prompts/deep.system.md"),
            Self::DeepUser => include_str!("../../prompts/deep.user.md"),
        }
    }

    fn replacement(self, config: &Config) -> &Path {
        match self {
            Self::TriageSystem => &config.prompts.triage_system,
            Self::TriageUser => &config.prompts.triage_user,
            // Not replaceable: its answer is numbers.
            Self::LocateSystem | Self::LocateUser => Path::new(""),
            Self::DeepSystem => &config.prompts.deep_system,
            Self::DeepUser => &config.prompts.deep_user,
        }
    }

    /// The variable that carries the item, for a template without which a session would be paid to
    /// read nothing.
    const fn item_variable(self) -> Option<&'static str> {
        match self {
            Self::TriageUser => Some("{% for item in items %}{{ item.text }}{% endfor %}"),
            Self::DeepUser => Some("{{ item }}"),
            Self::LocateUser => Some("{% for item in items %}{{ item.text }}{% endfor %}"),
            Self::TriageSystem | Self::LocateSystem | Self::DeepSystem => None,
        }
    }

    /// Sample values, to find unknown variables before the first run.
    fn sample(self) -> minijinja::Value {
        match self {
            Self::TriageSystem => {
                context! {
                    fence => "data-0", code => true, earlier => true, known => true,
                    options => true, code_bases => true, corrections => true,
                    language => "English",
                }
            }
            Self::TriageUser => context! {
                fence => "data-0", ids => [1], again => true, code => "text", known => "text",
                items => [context! {
                    id => 1, text => SAMPLE_ITEM, near => "", marks => "", earlier => "text",
                    options => "text", code_bases => "text", corrections => "text",
                }],
            },
            Self::LocateSystem => context! { fence => "data-0" },
            Self::LocateUser => context! {
                fence => "data-0", numbers => [1],
                items => [context! {
                    number => 1, text => SAMPLE_ITEM, question => "text", files => "text",
                }],
            },
            Self::DeepSystem => context! {
                fence => "data-0", max_files_read => 5, code_bases => "", overview => true,
                context => true,
                earlier => true, known => true, links => true, files => true,
                language => "English",
            },
            Self::DeepUser => context! {
                fence => "data-0", id => 1, item => SAMPLE_ITEM, marks => "", verdict => "text",
                overview => "text", context => "text", earlier => "text", known => "text",
                links => "text", files => "text", max_files_read => 5,
            },
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    #[error("cannot read the prompt file {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// A template is invalid or uses an unknown variable.
    #[error("the prompt {name} is invalid: {}", detail(source))]
    Template { name: String, source: minijinja::Error },
    /// The template engine rejected its settings.
    #[error("cannot configure the template engine: {0}")]
    Syntax(minijinja::Error),
    #[error("the prompt {name} is empty")]
    Empty { name: String },
    #[error(
        "the prompt {name} does not contain the work item, so every session would be about nothing: \
         add {variable}"
    )]
    NoItem { name: String, variable: &'static str },
    #[error("the prompt is {bytes} bytes long; the agent accepts {MAX_PROMPT_BYTES}")]
    TooLong { bytes: usize },
    #[error("a schema is not valid JSON: {0}")]
    Schema(#[from] serde_json::Error),
}

fn detail(error: &minijinja::Error) -> String {
    match error.line() {
        Some(line) => format!("line {line}: {error}"),
        None => error.to_string(),
    }
}

/// Everything that is sent to the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    pub system: String,
    /// Sent on standard input.
    pub user: String,
    /// Schema of the answer.
    pub schema: Value,
}

impl Rendered {
    /// Estimated, for all parts.
    pub fn tokens(&self) -> u64 {
        estimate_tokens(&self.system)
            + estimate_tokens(&self.user)
            + estimate_tokens(&self.schema.to_string())
    }
}

/// The templates in use.
#[derive(Debug)]
pub struct Prompts {
    templates: Environment<'static>,
    auth: AgentAuth,
    language: String,
    version: String,
}

/// Default language of the texts for people.
const LANGUAGE: &str = "English";

impl Prompts {
    pub fn built_in(auth: AgentAuth) -> Result<Self, PromptError> {
        Self::from_sources(auth, LANGUAGE, |template| Ok(template.built_in().to_owned()))
    }

    /// The configured templates; `read` reads the file that replaces one.
    pub fn load(
        config: &Config,
        read: impl Fn(&Path) -> std::io::Result<String>,
    ) -> Result<Self, PromptError> {
        let source_of = |template: Template| match template.replacement(config) {
            path if path.as_os_str().is_empty() => Ok(template.built_in().to_owned()),
            path => read(path)
                .map_err(|source| PromptError::Unreadable { path: path.to_owned(), source }),
        };
        Self::from_sources(config.agent.auth, &config.report.language, source_of)
    }

    fn from_sources(
        auth: AgentAuth,
        language: &str,
        source_of: impl Fn(Template) -> Result<String, PromptError>,
    ) -> Result<Self, PromptError> {
        let mut templates = Environment::new();
        templates.set_undefined_behavior(UndefinedBehavior::Strict);
        templates.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        let lines_of_tags_vanish =
            SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        templates.set_syntax(lines_of_tags_vanish.map_err(PromptError::Syntax)?);
        let mut hash = Sha256::new();
        for template in Template::ALL {
            let source = source_of(template)?;
            // A better order of files is no reason to analyse every item again.
            if !matches!(template, Template::LocateSystem | Template::LocateUser) {
                hash.update(u64::try_from(source.len()).unwrap_or(u64::MAX).to_le_bytes());
                hash.update(&source);
            }
            templates
                .add_template_owned(template.name(), source)
                .map_err(|source| template_error(template, source))?;
        }
        // The language is not part of the version: changing it must not re-analyse every item.
        hash.update(TRIAGE_SCHEMA);
        hash.update(DEEP_SCHEMA);
        let version = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let language = match language.trim() {
            "" => LANGUAGE.to_owned(),
            language => language.to_owned(),
        };
        let prompts = Self { templates, auth, language, version };
        for template in Template::ALL {
            let text = prompts.render(template, template.sample())?;
            if let Some(variable) = template.item_variable()
                && !text.contains(SAMPLE_ITEM)
            {
                return Err(PromptError::NoItem { name: template.name().to_owned(), variable });
            }
        }
        Ok(prompts)
    }

    /// Changes with every template and schema; part of an item's fingerprint.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Language of the texts that the agent writes for people.
    pub(crate) fn language(&self) -> &str {
        &self.language
    }

    /// Renders both templates of a session.
    pub(crate) fn compose(
        &self,
        (system, system_values): (Template, minijinja::Value),
        (user, user_values): (Template, minijinja::Value),
        schema: Value,
    ) -> Result<Rendered, PromptError> {
        let system = self.render(system, system_values)?;
        let user = self.render(user, user_values)?;
        self.finish(system, user, schema)
    }

    fn render(&self, template: Template, values: minijinja::Value) -> Result<String, PromptError> {
        let text = self
            .templates
            .get_template(template.name())
            .and_then(|found| found.render(values))
            .map_err(|source| template_error(template, source))?;
        match text.trim() {
            "" => Err(PromptError::Empty { name: template.name().to_owned() }),
            text => Ok(format!("{text}\n")),
        }
    }

    /// Makes the prompt safe to send: it never begins with a slash (the agent would treat it as a
    /// command), and with a login no `@` refers to a file.
    fn finish(
        &self,
        system: String,
        mut user: String,
        schema: Value,
    ) -> Result<Rendered, PromptError> {
        if self.auth == AgentAuth::Login {
            user = neutralise_mentions(&user);
        }
        if user.trim_start().starts_with('/') {
            user.insert_str(0, "Task:\n");
        }
        match user.len() {
            bytes if bytes > MAX_PROMPT_BYTES => Err(PromptError::TooLong { bytes }),
            _ => Ok(Rendered { system, user, schema }),
        }
    }
}

fn template_error(template: Template, source: minijinja::Error) -> PromptError {
    PromptError::Template { name: template.name().to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        toml::from_str(crate::config::DEFAULT_TOML).unwrap()
    }

    #[test]
    fn an_unknown_variable_is_found_at_the_start() {
        let mut config = config();
        config.prompts.triage_user = "mine.md".into();
        let error =
            Prompts::load(&config, |_| Ok("one\n{{ itmes }}".to_owned())).unwrap_err().to_string();
        assert!(error.contains("triage.user.md") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_prompt_without_its_item_is_refused() {
        let mut config = config();
        config.prompts.deep_user = "mine.md".into();
        let about_nothing = "Analyse item {{ id }} between {{ fence }}.";
        let error = Prompts::load(&config, |_| Ok(about_nothing.into())).unwrap_err().to_string();
        assert!(error.contains("deep.user.md") && error.contains("{{ item }}"), "{error}");
    }

    #[test]
    fn a_replacement_changes_the_version() {
        let mut config = config();
        let built_in = Prompts::built_in(AgentAuth::ApiKey).unwrap();
        assert_eq!(
            Prompts::load(&config, |_| unreachable!()).unwrap().version(),
            built_in.version()
        );
        config.prompts.deep_system = "mine.md".into();
        let mine = Prompts::load(&config, |_| Ok("Be brief.".to_owned())).unwrap();
        assert_ne!(mine.version(), built_in.version());
        assert_eq!(mine.version().len(), 16);
    }

    #[test]
    fn a_missing_file_is_named() {
        let mut config = config();
        config.prompts.deep_user = "/no/such/prompt.md".into();
        let error = Prompts::load(&config, |_| Err(std::io::ErrorKind::NotFound.into()));
        assert!(error.unwrap_err().to_string().contains("/no/such/prompt.md"));
    }

    #[test]
    fn an_empty_prompt_is_refused() {
        let mut config = config();
        config.prompts.deep_user = "mine.md".into();
        let error = Prompts::load(&config, |_| Ok(" \n".to_owned())).unwrap_err();
        assert!(matches!(error, PromptError::Empty { .. }));
    }

    #[test]
    fn a_prompt_never_begins_with_a_slash() {
        let prompts = Prompts::built_in(AgentAuth::ApiKey).unwrap();
        for start in ["/help", "\n /exit"] {
            let rendered = prompts.finish(String::new(), start.to_owned(), Value::Null).unwrap();
            assert!(!rendered.user.trim_start().starts_with('/'));
            assert!(rendered.user.ends_with(start));
        }
    }

    #[test]
    fn only_a_login_changes_mentions() {
        for (auth, expected) in [
            (AgentAuth::ApiKey, "see @/etc/hostname"),
            (AgentAuth::Login, "see \u{ff20}/etc/hostname"),
        ] {
            let prompts = Prompts::built_in(auth).unwrap();
            let rendered =
                prompts.finish(String::new(), "see @/etc/hostname".to_owned(), Value::Null);
            assert_eq!(rendered.unwrap().user, expected);
        }
    }

    #[test]
    fn a_prompt_the_agent_would_refuse_is_refused_before() {
        let prompts = Prompts::built_in(AgentAuth::ApiKey).unwrap();
        let long = "x".repeat(MAX_PROMPT_BYTES + 1);
        let error = prompts.finish(String::new(), long, Value::Null).unwrap_err();
        assert!(matches!(error, PromptError::TooLong { .. }));
    }
}
