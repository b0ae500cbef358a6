//! The code bases of the configuration, for a run: each indexed once, and the context of an item from
//! the one it belongs to. What indexes, ranks and packs is the crate `code_context`
//! (`crates/code-context`); here is what connects it with items, verdicts and settings.

mod at_commit;
mod code_bases;
mod hints;
mod since;
mod subject;
mod upstream;

pub use at_commit::CommitCode;
pub use code_bases::{
    CodeBase, CodeBases, CodeContext, CodeError, KnownCommit, NamedRoot, code_base_of,
    code_bases_of,
};
pub use code_context::{
    BuildReport, Candidate, Choice, Chosen, ContextError, GitError, Index, Kind, Language, Moved,
    MovingIndex, Options, Packed, Query, RankedFile, Reader, SIGNALS, Subject, TextKind, Weights,
    candidates, extension_of, git, overview, pack, rank, remove_unused, scored, shown_lines, tree,
};
pub use hints::{CodeHint, CodeHints};
pub use since::changes_since;
pub use subject::{subject_of, weights_of};
pub use upstream::{
    CodeCommit, CodeCopies, CodeSource, Upstream, commit_of, has_files, latest_copy,
};
