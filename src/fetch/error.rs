//! How reading and writing can fail, for every tracker.

use jiff::Timestamp;

use crate::model::FailureClass;
use crate::ports::StateError;

/// A failed read or write, with a message that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    pub class: FailureClass,
    /// The tracker's code, such as `TF401232`, or the status of its response.
    pub code: Option<String>,
    /// What happened and how to fix it, in one paragraph.
    pub message: String,
    /// The tracker's earliest time for the next request.
    pub not_before: Option<Timestamp>,
    /// The underlying error of the transport or the state.
    #[source]
    pub cause: Option<Cause>,
}

/// The error behind a [`FetchError`], shared because a failure is reported in several places. Two
/// causes are equal if their texts are equal.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct Cause(std::sync::Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(std::sync::Arc::from(error.into()))
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Cause {}

/// Our own code for a response above the size limit; no tracker uses it.
pub(super) const BODY_TOO_LONG: &str = "BODY_TOO_LONG";

impl FetchError {
    /// An error without a response of the tracker.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, code: None, message: message.into(), not_before: None, cause: None }
    }

    /// Adds the id of the response, which support asks for.
    #[must_use]
    pub(super) fn with_request_id(mut self, id: Option<&str>) -> Self {
        if let Some(id) = id {
            self.message.push_str(&format!(" ({id})"));
        }
        self
    }

    pub(super) fn has_code(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    /// Whether what was asked for is not there.
    pub(super) fn is_missing(&self) -> bool {
        self.has_code("404") || self.has_code("410")
    }

    /// Whether one item may be the cause: the server fails, or the response is too long.
    pub(super) fn may_be_one_item(&self) -> bool {
        matches!(self.class, FailureClass::Transient | FailureClass::Down)
            || self.has_code(BODY_TOO_LONG)
    }

    /// Whether our own state failed, for example on a full disk, and not the source.
    pub fn is_state_failure(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| cause.0.is::<StateError>())
    }
}

/// The state failed, not the source.
impl From<StateError> for FetchError {
    fn from(error: StateError) -> Self {
        let message =
            format!("the stored state of the source could not be read or written: {error}");
        Self { cause: Some(Cause::new(error)), ..Self::new(FailureClass::Transient, message) }
    }
}
