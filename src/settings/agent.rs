//! `[agent]`, `[codex]` and `[copilot]`: the agent CLIs and their settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::Config;
use crate::model::{Stage, Usage, Usd};

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum AgentKind {
    Claude,
    Codex,
    Copilot,
}

impl AgentKind {
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Copilot];

    /// Name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Copilot => "GitHub Copilot",
        }
    }

    /// Whether its sessions can read pictures. Codex gets a text-only model, and Copilot's file
    /// tool was only tested with text.
    pub const fn sees_pictures(self) -> bool {
        matches!(self, Self::Claude)
    }

    /// The section with its command and credential.
    pub const fn section(self) -> &'static str {
        match self {
            Self::Claude => "agent",
            Self::Codex => "codex",
            Self::Copilot => "copilot",
        }
    }
}

/// `[agent]`: settings for all agents, and those of Claude Code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    pub kind: AgentKind,
    pub command: Vec<String>,
    pub credential_env: String,
    pub pass_env: Vec<String>,
    pub auth: AgentAuth,
    pub max_retries: u32,
    pub read_paths: Vec<PathBuf>,
    pub write_paths: Vec<PathBuf>,
    pub connect_ports: Vec<u16>,
    /// Keyed by model name.
    pub price: BTreeMap<String, Price>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentAuth {
    /// An API key in an environment variable.
    ApiKey,
    /// The login of the CLI.
    Login,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    /// Defaults to `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    /// Input that is written to the provider's cache; defaults to `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    pub output: f64,
}

impl Price {
    /// Cost of this usage.
    #[expect(clippy::cast_precision_loss, reason = "an estimate; exact below 2^53 tokens")]
    pub fn of(&self, usage: &Usage) -> Usd {
        let cached = self.cached_input.unwrap_or(self.input);
        let millionths = [
            (usage.input_tokens, self.input),
            (usage.cache_creation_tokens, self.cache_write.unwrap_or(self.input)),
            (usage.cache_read_tokens, cached),
            (usage.output_tokens, self.output),
        ];
        let sum = millionths.map(|(tokens, price)| tokens as f64 * price).iter().sum::<f64>();
        Usd::from_dollars(sum / 1e6)
    }

    /// Whether all prices are finite and not negative.
    pub fn is_sound(&self) -> bool {
        let figures = [Some(self.input), self.cached_input, self.cache_write, Some(self.output)];
        figures.into_iter().flatten().all(|figure| figure.is_finite() && figure >= 0.0)
            && self.input + self.output > 0.0
    }
}

/// `[codex]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodexSettings {
    pub command: Vec<String>,
    pub base_url: String,
    pub api_version: String,
    pub credential_env: String,
    pub credential_header: String,
}

/// `[copilot]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopilotSettings {
    pub command: Vec<String>,
    pub provider: CopilotProvider,
    pub base_url: String,
    pub wire: CopilotWire,
    pub credential_env: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum CopilotProvider {
    /// A GitHub subscription.
    Github,
    /// A custom provider with an OpenAI-compatible API.
    Openai,
    Azure,
    Anthropic,
}

/// API that Copilot uses with a custom provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum CopilotWire {
    Completions,
    Responses,
}

impl Config {
    pub fn agent_of(&self, stage: Stage) -> AgentKind {
        let own = match stage {
            Stage::Triage | Stage::Locate => self.triage.agent,
            Stage::Deep => self.analyze.agent,
        };
        own.unwrap_or(self.agent.kind)
    }

    /// The agents in use, without duplicates.
    pub fn agents(&self) -> Vec<AgentKind> {
        let mut kinds = vec![self.agent_of(Stage::Triage), self.agent_of(Stage::Deep)];
        kinds.dedup();
        kinds
    }

    pub fn model_of(&self, stage: Stage) -> &str {
        match stage {
            Stage::Triage | Stage::Locate => &self.triage.model,
            Stage::Deep => &self.analyze.model,
        }
    }

    pub fn command_of(&self, kind: AgentKind) -> &[String] {
        match kind {
            AgentKind::Claude => &self.agent.command,
            AgentKind::Codex => &self.codex.command,
            AgentKind::Copilot => &self.copilot.command,
        }
    }

    /// Name of the variable that holds an agent's credential.
    pub fn credential_env_of(&self, kind: AgentKind) -> &str {
        match kind {
            AgentKind::Claude => &self.agent.credential_env,
            AgentKind::Codex => &self.codex.credential_env,
            AgentKind::Copilot => &self.copilot.credential_env,
        }
    }
}

/// `#[serde(with = …)]` for the agent of one stage; `""` means `[agent] kind`.
pub mod stage_agent {
    use serde::de::IntoDeserializer;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::AgentKind;

    pub fn serialize<S: Serializer>(
        kind: &Option<AgentKind>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.map_or("", |kind| kind.into_str()))
    }

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
