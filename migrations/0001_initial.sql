-- The schema of the first release, by subject. Times are milliseconds since the epoch, UTC; money is
-- millionths of a dollar; a column described as JSON is read as a whole.
-- Once a release has it, this file stays as it is and every change is a new numbered file.

-- ── Items ────────────────────────────────────────────────────────────────────────────────────────

-- One row per work item ever seen: what was last finished, and what is still to do.
CREATE TABLE heartbeat_state (
    key                   TEXT    NOT NULL PRIMARY KEY,
    item_id               INTEGER NOT NULL,
    title                 TEXT    NOT NULL,
    item_type             TEXT    NOT NULL,
    url                   TEXT    NOT NULL,
    priority              INTEGER,
    -- So that items can be selected by it. NULL: not read yet; '': the item has none. The next runs
    -- read parked and waiting items once to fill it.
    area_path             TEXT,
    -- The person it is assigned to, so that findings can be selected by it.
    assigned_to           TEXT,
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
    -- Triage sessions in a row that failed with this item in them.
    triage_failures       INTEGER NOT NULL DEFAULT 0,
    -- The smallest number of items among which triage failed with this one in it; 0: none.
    suspect_among         INTEGER NOT NULL DEFAULT 0,
    -- Sessions in a row that the provider, the machine or a crash ended, and that did not count.
    excused               INTEGER NOT NULL DEFAULT 0,
    -- Triage's answer for the present fingerprint, as JSON.
    verdict               TEXT,
    first_seen            INTEGER NOT NULL,
    last_seen             INTEGER NOT NULL
) STRICT;
CREATE INDEX heartbeat_state_open ON heartbeat_state (phase) WHERE phase NOT IN ('done', 'vanished');

-- What triage read of an item, part by part, and what it said: the two newest of each item. The next
-- prompt about the item says what changed since.
CREATE TABLE readings (
    key         TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    read_at     INTEGER NOT NULL,
    -- Short values as they were, long texts as hashes.
    parts       TEXT    NOT NULL,
    verdict     TEXT    NOT NULL,
    PRIMARY KEY (key, fingerprint)
) STRICT, WITHOUT ROWID;

-- Which items triage took for reports of the same thing.
CREATE TABLE duplicates (
    key   TEXT NOT NULL,
    other TEXT NOT NULL,
    why   TEXT NOT NULL,
    PRIMARY KEY (key, other)
) STRICT, WITHOUT ROWID;
CREATE INDEX duplicates_by_other ON duplicates (other);

-- The words of every item seen, to find items like a new one. The index alone is stored, not the
-- texts.
CREATE TABLE indexed_items (
    id    INTEGER NOT NULL PRIMARY KEY,
    key   TEXT    NOT NULL UNIQUE,
    -- Of the indexed words: they are not written again while they stay the same.
    print TEXT    NOT NULL
) STRICT;
CREATE VIRTUAL TABLE item_words USING fts5 (
    title, text, content = '', contentless_delete = 1,
    -- Words come separated by spaces, in lower case and without their endings.
    tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* Co'"
);
CREATE VIRTUAL TABLE item_word_counts USING fts5vocab (item_words, row);

-- ── Suggestions ──────────────────────────────────────────────────────────────────────────────────

-- The words and fields of every item read, as they are now: suggestions for a new item come from
-- those most like it.
CREATE TABLE item_fields (
    key        TEXT    NOT NULL PRIMARY KEY,
    source     TEXT    NOT NULL,
    created_at INTEGER,
    changed_at INTEGER NOT NULL,
    -- Of the title, a line break, of the text.
    words      TEXT    NOT NULL,
    -- Area, type, priority, severity, tags and owner, as JSON.
    fields     TEXT    NOT NULL
) STRICT;
CREATE INDEX item_fields_newest ON item_fields (source, changed_at);

-- A value suggested for a field of an item, and what people did with it.
CREATE TABLE suggestions (
    key        TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    field      TEXT    NOT NULL,
    value      TEXT    NOT NULL,
    -- The area whose record counts for it.
    area       TEXT    NOT NULL,
    -- The field's value when it was suggested.
    before     TEXT    NOT NULL,
    chosen_by  TEXT    NOT NULL,
    score      REAL    NOT NULL,
    -- How often such suggestions were right, of how many; NULL: not known.
    hits       INTEGER,
    of_items   INTEGER,
    shown      INTEGER NOT NULL,
    fate       TEXT    NOT NULL DEFAULT 'open'
        CHECK (fate IN ('open', 'kept', 'changed', 'ignored')),
    run        TEXT,
    made_at    INTEGER NOT NULL,
    decided_at INTEGER,
    -- 1: heartbeat wrote it to the tracker, so that finding it there is nobody's answer.
    written    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (key, field, value)
) STRICT;
CREATE INDEX suggestions_by_run ON suggestions (run);
CREATE INDEX suggestions_open ON suggestions (made_at) WHERE fate = 'open';

-- What people said was wrong about an item's verdict or finding: evidence for triage of similar items.
CREATE TABLE corrections (
    key      TEXT    NOT NULL PRIMARY KEY,
    source   TEXT    NOT NULL,
    note     TEXT    NOT NULL,
    given_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How often suggestions were right on finished items, by field and area ('': all areas), as
-- `backtest --triage` measured it.
CREATE TABLE suggestion_figures (
    source      TEXT    NOT NULL,
    field       TEXT    NOT NULL,
    chosen_by   TEXT    NOT NULL,
    area        TEXT    NOT NULL,
    -- Suggestions with a lower score are not made.
    cutoff      REAL    NOT NULL,
    hits        INTEGER NOT NULL,
    of_items    INTEGER NOT NULL,
    -- Items whose value a person set or changed, and those of them with a suggestion.
    needed      INTEGER NOT NULL,
    covered     INTEGER NOT NULL,
    measured_at INTEGER NOT NULL,
    PRIMARY KEY (source, field, chosen_by, area)
) STRICT, WITHOUT ROWID;

-- ── Sources ──────────────────────────────────────────────────────────────────────────────────────

-- Where the next query begins; moves together with the decisions on what came before.
CREATE TABLE cursors (
    source        TEXT    NOT NULL PRIMARY KEY,
    changed_since INTEGER NOT NULL
) STRICT;

-- What a source must be asked with and how it behaved: breaker, not-before, versions, tokens.
CREATE TABLE breaker (
    source TEXT NOT NULL PRIMARY KEY,
    memory TEXT NOT NULL
) STRICT;

-- ── Runs and their schedule ──────────────────────────────────────────────────────────────────────

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

-- Facts about the state itself, such as whether its first run is over.
CREATE TABLE facts (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- ── Sessions ─────────────────────────────────────────────────────────────────────────────────────

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
    deadline_at        INTEGER NOT NULL,
    -- NULL: on this machine; '': given to the fleet and not taken by a host yet; else the host's name.
    host               TEXT,
    -- What it has used so far, as JSON, so that a crash does not have to be booked at the worst
    -- case. NULL: nothing is known.
    used               TEXT
) STRICT;

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
    applied     INTEGER NOT NULL DEFAULT 0,
    -- As in heartbeat_active_sessions.
    host        TEXT,
    -- JSON: what held it, by subject (files, network, signals, ipc, capabilities, processes, memory).
    in_force    TEXT,
    -- On a worker only: what the fleet's server knows a session by, until it took its end, and that
    -- end as a whole, so that it can be delivered again.
    token       BLOB,
    whole_end   TEXT
) STRICT;
CREATE INDEX sessions_by_run ON sessions (run);
CREATE INDEX sessions_by_item ON sessions (item) WHERE item IS NOT NULL;
-- Recovery looks for these at every start, however long the history is.
CREATE INDEX sessions_unapplied ON sessions (started_at) WHERE applied = 0;
CREATE INDEX sessions_undelivered ON sessions (ended_at) WHERE token IS NOT NULL;

-- What a session read and said, in short and without heartbeat's credentials, as JSON. Kept as long
-- as events.
CREATE TABLE transcripts (
    session   TEXT    NOT NULL PRIMARY KEY,
    stored_at INTEGER NOT NULL,
    lines     TEXT    NOT NULL
) STRICT;
CREATE INDEX transcripts_by_age ON transcripts (stored_at);

-- One row per claim of an item for deep analysis.
CREATE TABLE attempts (
    key         TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    session     TEXT    NOT NULL PRIMARY KEY,
    run         TEXT    NOT NULL,
    claimed_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    outcome     TEXT,
    -- 1: it was the item's own fault and counts against it, until a person resets it.
    counted     INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX attempts_by_key ON attempts (key);
CREATE INDEX attempts_by_text ON attempts (key, fingerprint);

-- ── Findings ─────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE findings (
    id          INTEGER NOT NULL PRIMARY KEY,
    key         TEXT    NOT NULL,
    revision    INTEGER NOT NULL,
    fingerprint TEXT    NOT NULL,
    session     TEXT    NOT NULL,
    run         TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    verdict     TEXT,
    finding     TEXT    NOT NULL,
    -- What it was made with, so that a change of model or prompt can be judged by figures.
    model       TEXT,
    prompt      TEXT
) STRICT;
CREATE INDEX findings_by_key ON findings (key);
CREATE INDEX findings_by_session ON findings (session);

-- What a person thought of a finding. The last word on a finding counts; a newer finding of the
-- same item starts without one.
CREATE TABLE feedback (
    -- The session that made the finding.
    session  TEXT    NOT NULL PRIMARY KEY,
    key      TEXT    NOT NULL,
    opinion  TEXT    NOT NULL CHECK (opinion IN ('useful', 'wrong', 'done')),
    note     TEXT    NOT NULL DEFAULT '',
    given_at INTEGER NOT NULL
) STRICT;

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

-- Attempts to build the patch of a finding and to run its test; what came of them is in the finding.
CREATE TABLE verifications (
    -- The session that made the finding.
    session    TEXT    NOT NULL PRIMARY KEY,
    attempts   INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    -- NULL: it is under way, or heartbeat ended meanwhile.
    ended_at   INTEGER
) STRICT;

-- ── Money and the model provider ─────────────────────────────────────────────────────────────────

-- Worst cases reserved before a session starts, settled to the real cost after it.
CREATE TABLE budget (
    session   TEXT    NOT NULL PRIMARY KEY,
    run       TEXT    NOT NULL,
    stage     TEXT    NOT NULL,
    -- Of the item that the session was about, so that a source can have a budget of its own. NULL:
    -- triage, which is about items of several sources.
    source    TEXT,
    day       TEXT    NOT NULL,
    reserved  INTEGER NOT NULL,
    -- NULL while the session is alive; the reserved sum if it never told its cost.
    spent     INTEGER,
    -- 1 where `spent` is not what the agent reported: from tokens and prices, or assumed.
    estimated INTEGER NOT NULL DEFAULT 0,
    -- 1 where `spent` is the worst case of a session that ended without a cost or tokens.
    assumed   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX budget_by_day ON budget (day);
CREATE INDEX budget_by_run ON budget (run);

-- What is known about the model provider, as one JSON value: breaker, stated limit, refused
-- credential (a keyed fingerprint, never the credential), last answer, fault of the configuration.
CREATE TABLE provider_record (
    name   TEXT NOT NULL PRIMARY KEY,
    record TEXT NOT NULL
) STRICT;

-- ── What leaves heartbeat ────────────────────────────────────────────────────────────────────────

-- What is to be published, stored in the transaction that makes it due and delivered afterwards, by
-- this run or a later one.
CREATE TABLE outbox (
    id           INTEGER NOT NULL PRIMARY KEY,
    kind         TEXT    NOT NULL CHECK (kind IN ('comment', 'digest', 'fields')),
    -- The same for the same message: it is stored once.
    mark         TEXT    NOT NULL UNIQUE,
    run          TEXT    NOT NULL,
    item         TEXT,
    -- The revision a comment is about.
    revision     INTEGER,
    -- A comment's text, or the values for fields as JSON; a digest is made from the stored run when
    -- it is sent.
    body         TEXT    NOT NULL,
    state        TEXT    NOT NULL DEFAULT 'pending'
        CHECK (state IN ('pending', 'delivered', 'failed')),
    -- Counted before each attempt: above 0 an earlier attempt may have arrived.
    attempts     INTEGER NOT NULL DEFAULT 0,
    -- 1 from the start of an attempt to its end; left by a crash in between.
    sending      INTEGER NOT NULL DEFAULT 0,
    next_attempt INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    last_error   TEXT
) STRICT;
CREATE INDEX outbox_open ON outbox (next_attempt) WHERE state <> 'delivered';
CREATE INDEX outbox_by_item ON outbox (item) WHERE item IS NOT NULL;

-- ── The one ordered log. Everything shown is a fold over it. ─────────────────────────────────────

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
