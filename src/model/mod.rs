//! Plain data that all modules share.
//!
//! Nothing here does IO, reads a clock or uses another module.

mod area;
mod background;
mod feedback;
mod fields;
mod finding;
mod fix;
mod future;
mod ids;
mod item;
mod linked_content;
mod masked;
mod money;
mod names;
mod outcome;
mod phase;
mod plain;
mod proof;
mod session;
mod source;
mod stale;
pub mod text;
mod time;
mod tokens;
mod transcript;
mod untrusted;
mod verdict;

pub use area::is_within_area;
pub use background::{Background, Earlier, KnownTitle};
pub use feedback::{Feedback, MAX_NOTE_LEN, Opinion};
pub use fields::{ChosenBy, Fate, Field, ItemFields, Suggestion, TrackRecord};
pub use finding::{Confidence, Effort, FileReference, FileRole, Finding, MadeWith, Risk};
pub use fix::{Fix, FixCommit, FixScore};
pub use future::BoxFuture;
pub use ids::{ItemId, ItemKey, RunId, SessionId};
pub use item::{CleanField, CleanItem, Comment, Links, TextField, WorkItem};
pub use linked_content::{
    Attachment, AttachmentUse, ChangeKind, LinkKind, LinkedChange, LinkedContent, LinkedItem,
    ReadLinkedContent,
};
pub use masked::{code_ranges, mask, unmask, unmask_markdown};
pub use money::Usd;
pub use names::name_in;
pub use outcome::{FailureKind, Outcome, RetryClass, Stage, Usage};
pub use phase::Phase;
pub use plain::{
    is_acting, json_without_pipeline_commands, plain_json, plain_markdown, plain_text,
    without_pipeline_commands,
};
pub use proof::{AnalysedCode, Doubt, Evidence, Proof, Rung, Standing, Step, Unfound};
pub use session::{SessionEnd, SessionRef};
pub use source::{Breaker, BreakerState, FailureClass, RateLimit, RepositoryRecord, SourceRecord};
pub use stale::{LaterCommit, Stale};
pub use supervisor::{ProcessIdentity, milliseconds};
pub use time::MAX_WAIT;
pub use tokens::{BYTES_PER_TOKEN, estimate_tokens, tokens_of_bytes};
pub use transcript::{SessionTranscript, TranscriptKind, TranscriptLine};
pub use untrusted::Untrusted;
pub use verdict::{Complexity, Duplicate, Verdict};
pub use visible_text::{
    Alarms, Format, TextStats, Tier, UnclearTextPolicy, VisibilityIssue, VisibilityIssues,
};
