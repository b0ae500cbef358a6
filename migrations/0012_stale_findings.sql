-- Findings whose files changed after them, by which commits.
CREATE TABLE stale_findings (
    -- The session that made the finding.
    session  TEXT    NOT NULL PRIMARY KEY,
    key      TEXT    NOT NULL,
    -- [{"id", "subject", "at"}, …], the newest of them.
    commits  TEXT    NOT NULL,
    total    INTEGER NOT NULL,
    -- [path, …]: the named files that changed.
    files    TEXT    NOT NULL,
    noted_at INTEGER NOT NULL,
    -- 1: its item was queued again for that.
    requeued INTEGER NOT NULL DEFAULT 0
) STRICT;
