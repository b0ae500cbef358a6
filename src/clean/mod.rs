//! Work-item text made fit for a prompt: HTML, Markdown and test steps to compact, safe text.
