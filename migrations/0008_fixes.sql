-- What a finding was made with, so that a change of model or prompt can be judged by figures.
-- NULL: made before these columns existed.
ALTER TABLE findings ADD COLUMN model TEXT;
ALTER TABLE findings ADD COLUMN prompt TEXT;

-- The commits that fixed an item after or before its finding, and the files they changed.
CREATE TABLE fixes (
    -- The session that made the finding.
    session   TEXT    NOT NULL PRIMARY KEY,
    key       TEXT    NOT NULL,
    -- When the first of its commits was made.
    fixed_at  INTEGER NOT NULL,
    -- [{"id", "why"}, …]: how each commit names the item.
    commits   TEXT    NOT NULL,
    -- [path, …] as they were before the fix.
    changed   TEXT    NOT NULL,
    -- How many files the finding would change, and how many of them the fix changed.
    named     INTEGER NOT NULL,
    hits      INTEGER NOT NULL,
    scored_at INTEGER NOT NULL
) STRICT;
CREATE INDEX fixes_by_time ON fixes (fixed_at);
