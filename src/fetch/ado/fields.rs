//! The reference names of an item's fields.

/// Fields read of every item, in addition to the configured long texts.
pub const BASIC: [&str; 19] = [
    "System.Id",
    "System.Title",
    "System.WorkItemType",
    "System.State",
    "System.ChangedDate",
    "System.CreatedDate",
    "System.TeamProject",
    "System.AreaPath",
    "System.IterationPath",
    "System.AssignedTo",
    "System.CreatedBy",
    "System.Tags",
    "System.Parent",
    "Microsoft.VSTS.Common.Priority",
    "Microsoft.VSTS.Common.Severity",
    LINKED_ITEMS,
    LINKED_DEVELOPMENT,
    LINKED_PAGES,
    ATTACHED_FILES,
];

/// Number of links to other items, the parent included.
pub const LINKED_ITEMS: &str = "System.RelatedLinkCount";

/// Number of links to commits, pull requests, builds and so on.
pub const LINKED_DEVELOPMENT: &str = "System.ExternalLinkCount";

/// Number of links to web pages.
pub const LINKED_PAGES: &str = "System.HyperLinkCount";

/// Number of attached files.
pub const ATTACHED_FILES: &str = "System.AttachedFileCount";

/// Number of comments; requested only if comments are read.
pub const COMMENT_COUNT: &str = "System.CommentCount";

/// The XML field of test cases.
pub const TEST_STEPS: &str = "Microsoft.VSTS.TCM.Steps";

/// Long texts that are HTML in every collection, so that their type needs no request.
pub const WELL_KNOWN_TEXTS: [&str; 5] = [
    "System.Description",
    "Microsoft.VSTS.TCM.ReproSteps",
    "Microsoft.VSTS.TCM.SystemInfo",
    TEST_STEPS,
    "Microsoft.VSTS.Common.AcceptanceCriteria",
];
