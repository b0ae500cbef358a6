//! Failures of a call that is repeated until it succeeds: which of them are logged.

/// The server closes old connections every few minutes, so one failure means nothing: the next call
/// succeeds. Only a second one in a row is logged, and the same text once.
#[derive(Debug, Default)]
pub(super) struct CallFaults {
    failed_before: bool,
    last_logged: Option<String>,
}

impl CallFaults {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Records a failure; whether to log it.
    pub(super) fn should_log(&mut self, text: &str) -> bool {
        let is_second = std::mem::replace(&mut self.failed_before, true);
        if !is_second || self.last_logged.as_deref() == Some(text) {
            tracing::debug!(error = text, "a call to the server failed; retrying");
            return false;
        }
        self.last_logged = Some(text.to_owned());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_closed_connection_is_not_logged_and_an_outage_is_logged_once() {
        let mut faults = CallFaults::default();
        assert!(!faults.should_log("connection closed"));
        faults.clear();
        assert!(!faults.should_log("connection closed"), "the calls between them succeeded");
        assert!(faults.should_log("connection refused"));
        assert!(!faults.should_log("connection refused"));
        assert!(faults.should_log("permission denied"), "another reason");
    }
}
