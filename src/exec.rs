//! Short helper commands (git, a token command): bounded in time and output, never an agent.
