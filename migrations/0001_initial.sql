-- The first schema. Times are milliseconds since the epoch, UTC; money is millionths of a dollar.
-- Migrations are append-only: a change is a new numbered file, never an edit of an old one.

-- One row per work item ever seen: what was last finished, and what is still to do.
CREATE TABLE heartbeat_state (
    key                   TEXT    NOT NULL PRIMARY KEY,
    item_id               INTEGER NOT NULL,
    title                 TEXT    NOT NULL,
    item_type             TEXT    NOT NULL,
    url                   TEXT    NOT NULL,
    priority              INTEGER,
    revision              INTEGER NOT NULL,
    last_changed          INTEGER NOT NULL,
    -- Of what would reach the prompt now.
    fingerprint           TEXT    NOT NULL,
    -- Of what was last finished; an item is work when the two differ.
    processed_fingerprint TEXT,
    last_processed        INTEGER,
    phase                 TEXT    NOT NULL
        CHECK (phase IN ('pending', 'claimed', 'done', 'waiting', 'parked', 'vanished')),
    reason                TEXT    NOT NULL,
    -- Attempts used on the present fingerprint.
    attempts              INTEGER NOT NULL DEFAULT 0,
    next_attempt          INTEGER,
    -- Runs that left it out since it became work; grows until it has its turn.
    deferrals             INTEGER NOT NULL DEFAULT 0,
    -- Triage's answer for the present fingerprint, as JSON.
    verdict               TEXT,
    first_seen            INTEGER NOT NULL,
    last_seen             INTEGER NOT NULL
) STRICT;
CREATE INDEX heartbeat_state_open ON heartbeat_state (phase) WHERE phase NOT IN ('done', 'vanished');

-- Written before an agent starts, removed when its tree is certified empty: the live count.
CREATE TABLE heartbeat_active_sessions (
    session            TEXT    NOT NULL PRIMARY KEY,
    run                TEXT    NOT NULL,
    stage              TEXT    NOT NULL,
    item               TEXT,
    attempt            INTEGER NOT NULL,
    keeper_pid         INTEGER NOT NULL,
    keeper_start_time  INTEGER NOT NULL,
    keeper_pidfd_inode INTEGER,
    boot_id            TEXT    NOT NULL,
    agent_pid          INTEGER,
    tier               TEXT    NOT NULL,
    cgroup             TEXT,
    scratch            TEXT    NOT NULL,
    started_at         INTEGER NOT NULL,
    deadline_at        INTEGER NOT NULL
) STRICT;

CREATE TABLE runs (
    run         TEXT    NOT NULL PRIMARY KEY,
    trigger     TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    outcome     TEXT,
    summary     TEXT
) STRICT;

-- A scheduled time is used at most once, whoever fires it.
CREATE TABLE ticks (
    schedule   TEXT    NOT NULL,
    nominal    INTEGER NOT NULL,
    decided_at INTEGER NOT NULL,
    decision   TEXT    NOT NULL CHECK (decision IN ('fired', 'skipped')),
    run        TEXT,
    missed     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (schedule, nominal)
) STRICT, WITHOUT ROWID;

-- Every session that ever had a row, with its end.
CREATE TABLE sessions (
    session     TEXT    NOT NULL PRIMARY KEY,
    run         TEXT    NOT NULL,
    stage       TEXT    NOT NULL,
    item        TEXT,
    attempt     INTEGER NOT NULL,
    -- [[key, fingerprint], …]: what it was about, so that its result can be applied after a crash.
    subject     TEXT    NOT NULL DEFAULT '[]',
    tier        TEXT    NOT NULL,
    keeper_pid  INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    outcome     TEXT,
    output      TEXT,
    usage       TEXT,
    survivors   INTEGER,
    -- 1 when the result is part of heartbeat_state.
    applied     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX sessions_by_run ON sessions (run);
CREATE INDEX sessions_by_item ON sessions (item) WHERE item IS NOT NULL;

-- One row per claim of an item for deep analysis.
CREATE TABLE attempts (
    key         TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    session     TEXT    NOT NULL PRIMARY KEY,
    run         TEXT    NOT NULL,
    claimed_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    outcome     TEXT
) STRICT;
CREATE INDEX attempts_by_key ON attempts (key);

CREATE TABLE findings (
    id          INTEGER NOT NULL PRIMARY KEY,
    key         TEXT    NOT NULL,
    revision    INTEGER NOT NULL,
    fingerprint TEXT    NOT NULL,
    session     TEXT    NOT NULL,
    run         TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    verdict     TEXT,
    finding     TEXT    NOT NULL
) STRICT;
CREATE INDEX findings_by_key ON findings (key);

-- What a source must be asked with and how it behaved: breaker, not-before, versions, tokens.
CREATE TABLE breaker (
    source TEXT NOT NULL PRIMARY KEY,
    memory TEXT NOT NULL
) STRICT;

-- Where the next query begins; moves together with the decisions on what came before.
CREATE TABLE cursors (
    source        TEXT    NOT NULL PRIMARY KEY,
    changed_since INTEGER NOT NULL
) STRICT;

-- Worst cases reserved before a session starts, settled to the real cost after it.
CREATE TABLE budget (
    session  TEXT    NOT NULL PRIMARY KEY,
    run      TEXT    NOT NULL,
    stage    TEXT    NOT NULL,
    day      TEXT    NOT NULL,
    reserved INTEGER NOT NULL,
    -- Null while the session is alive; the reserved sum if it never told its cost.
    spent    INTEGER
) STRICT;
CREATE INDEX budget_by_day ON budget (day);
CREATE INDEX budget_by_run ON budget (run);

-- The provider refuses more work until then.
CREATE TABLE provider (
    name   TEXT    NOT NULL PRIMARY KEY,
    until  INTEGER NOT NULL,
    reason TEXT    NOT NULL
) STRICT;

-- The one ordered log. Everything shown is a fold over it.
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    run     TEXT,
    event   TEXT    NOT NULL,
    session TEXT,
    item    TEXT,
    body    TEXT    NOT NULL
) STRICT;
CREATE INDEX events_by_run ON events (run, seq);
CREATE INDEX events_by_item ON events (item, seq) WHERE item IS NOT NULL;
