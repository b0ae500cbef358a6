//! Validates the answers to `heartbeat init`.

use crate::schedule::Schedule;

/// Turns the dashboard off.
pub(super) const OFF: &str = "off";

pub(super) fn check_address(answer: &str) -> Result<(), String> {
    match answer.starts_with("https://") || answer.starts_with("http://") {
        true => Ok(()),
        false => Err("a URL starts with https://".into()),
    }
}

pub(super) fn check_given(answer: &str) -> Result<(), String> {
    match answer.trim().is_empty() {
        true => {
            Err("the project is empty; write owner/repository for GitHub, a key such as SHOP for Jira, or \
                     the name of a project of Azure DevOps"
                .into())
        }
        false => Ok(()),
    }
}

pub(super) fn check_cron(answer: &str) -> Result<(), String> {
    Schedule::parse(answer, "UTC").map(drop).map_err(|error| error.to_string())
}

pub(super) fn check_zone(answer: &str) -> Result<(), String> {
    Schedule::parse("0 0 * * *", answer).map(drop).map_err(|error| error.to_string())
}

pub(super) fn check_first_run(answer: &str) -> Result<(), String> {
    match answer {
        "ask" | "baseline" | "process" => Ok(()),
        _ => Err("write baseline, process or ask".into()),
    }
}

pub(super) fn check_agent(answer: &str) -> Result<(), String> {
    match answer {
        "claude" | "codex" | "copilot" => Ok(()),
        _ => Err("write claude, codex or copilot".into()),
    }
}

pub(super) fn check_dashboard(answer: &str) -> Result<(), String> {
    match answer == OFF || answer.parse::<std::net::SocketAddr>().is_ok() {
        true => Ok(()),
        false => Err(format!("write an address such as 127.0.0.1:7979, or {OFF}")),
    }
}

pub(super) fn check_budget(answer: &str) -> Result<(), String> {
    match answer.parse::<f64>() {
        Ok(dollars) if dollars > 0.0 && dollars.is_finite() => Ok(()),
        _ => Err("write an amount such as 20 or 7.50".into()),
    }
}
