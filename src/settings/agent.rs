//! `[agent]`, `[codex]` and `[copilot]`: which agent CLI runs, and what each one needs to know.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::Config;
use crate::model::{Stage, Usage, Usd};

/// Which agent CLI.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum AgentKind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// GitHub Copilot.
    Copilot,
}

impl AgentKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Copilot];

    /// As people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Copilot => "GitHub Copilot",
        }
    }

    /// Can a session of it look at pictures? Codex is given a model of words only, and Copilot's tool
    /// for files was only measured on text.
    pub const fn sees_pictures(self) -> bool {
        matches!(self, Self::Claude)
    }

    /// The section with its command and its credential.
    pub const fn section(self) -> &'static str {
        match self {
            Self::Claude => "agent",
            Self::Codex => "codex",
            Self::Copilot => "copilot",
        }
    }
}

/// `[agent]`: what holds for every kind, and Claude's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    pub kind: AgentKind,
    pub command: Vec<String>,
    pub credential_env: String,
    pub pass_env: Vec<String>,
    pub auth: AgentAuth,
    pub max_retries: u32,
    pub read_paths: Vec<PathBuf>,
    pub write_paths: Vec<PathBuf>,
    pub connect_ports: Vec<u16>,
    /// By model.
    pub price: BTreeMap<String, Price>,
}

/// Which kind of credential the agent has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentAuth {
    /// A key in the environment.
    ApiKey,
    /// The CLI's own login.
    Login,
}

/// What a model costs, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    /// As `input`, unless the provider charges less for what it has in its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    pub output: f64,
}

impl Price {
    /// What so many tokens cost by this price.
    #[expect(clippy::cast_precision_loss, reason = "an estimate; exact below 2^53 tokens")]
    pub fn of(&self, usage: &Usage) -> Usd {
        let cached = self.cached_input.unwrap_or(self.input);
        let millionths = [
            // What is written to the cache is fresh input, which some providers charge more for.
            (usage.input_tokens.saturating_add(usage.cache_creation_tokens), self.input),
            (usage.cache_read_tokens, cached),
            (usage.output_tokens, self.output),
        ];
        let sum = millionths.map(|(tokens, price)| tokens as f64 * price).iter().sum::<f64>();
        Usd::from_dollars(sum / 1e6)
    }

    /// Is every figure one that money can have?
    pub fn is_sound(&self) -> bool {
        let figures = [Some(self.input), self.cached_input, Some(self.output)];
        figures.into_iter().flatten().all(|figure| figure.is_finite() && figure >= 0.0)
            && self.input + self.output > 0.0
    }
}

/// `[codex]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Codex {
    pub command: Vec<String>,
    pub base_url: String,
    pub api_version: String,
    pub credential_env: String,
    pub credential_header: String,
}

/// `[copilot]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copilot {
    pub command: Vec<String>,
    pub provider: CopilotProvider,
    pub base_url: String,
    pub wire: CopilotWire,
    pub credential_env: String,
}

/// Who answers Copilot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum CopilotProvider {
    /// GitHub, by subscription.
    Github,
    /// A provider of one's own that speaks like OpenAI.
    Openai,
    /// Azure OpenAI.
    Azure,
    /// Anthropic.
    Anthropic,
}

/// How Copilot talks to a provider of one's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum CopilotWire {
    /// Chat completions.
    Completions,
    /// Responses.
    Responses,
}

impl Config {
    /// The agent of a stage.
    pub fn agent_of(&self, stage: Stage) -> AgentKind {
        let own = match stage {
            Stage::Triage => self.triage.agent,
            Stage::Deep => self.analyze.agent,
        };
        own.unwrap_or(self.agent.kind)
    }

    /// The agents that this configuration uses, each once.
    pub fn agents(&self) -> Vec<AgentKind> {
        let mut kinds = vec![self.agent_of(Stage::Triage), self.agent_of(Stage::Deep)];
        kinds.dedup();
        kinds
    }

    /// The model of a stage.
    pub fn model_of(&self, stage: Stage) -> &str {
        match stage {
            Stage::Triage => &self.triage.model,
            Stage::Deep => &self.analyze.model,
        }
    }

    /// The command of an agent.
    pub fn command_of(&self, kind: AgentKind) -> &[String] {
        match kind {
            AgentKind::Claude => &self.agent.command,
            AgentKind::Codex => &self.codex.command,
            AgentKind::Copilot => &self.copilot.command,
        }
    }

    /// The variable with the credential of an agent.
    pub fn credential_env_of(&self, kind: AgentKind) -> &str {
        match kind {
            AgentKind::Claude => &self.agent.credential_env,
            AgentKind::Codex => &self.codex.credential_env,
            AgentKind::Copilot => &self.copilot.credential_env,
        }
    }
}

/// `#[serde(with = …)]` for an agent of one stage; "" is that of `[agent] kind`.
pub mod stage_agent {
    use serde::de::IntoDeserializer;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::AgentKind;

    /// Writes its name.
    pub fn serialize<S: Serializer>(
        kind: &Option<AgentKind>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.map_or("", |kind| kind.into_str()))
    }

    /// Reads its name.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<AgentKind>, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "" => Ok(None),
            name => AgentKind::deserialize(name.into_deserializer()).map(Some),
        }
    }
}
