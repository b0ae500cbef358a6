-- Which attempts count against an item: those that were its own fault, until a person resets them.
ALTER TABLE attempts ADD COLUMN counted INTEGER NOT NULL DEFAULT 1;
CREATE INDEX attempts_by_text ON attempts (key, fingerprint);

-- Triage sessions in a row that failed with this item in them.
ALTER TABLE heartbeat_state ADD COLUMN triage_failures INTEGER NOT NULL DEFAULT 0;

-- Facts about the state itself, such as whether its first run is over.
CREATE TABLE facts (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
INSERT INTO facts (name, value)
    SELECT 'first_run', 'over' WHERE EXISTS (SELECT 1 FROM heartbeat_state);

-- Recovery looks for these at every start, however long the history is.
CREATE INDEX sessions_unapplied ON sessions (started_at) WHERE applied = 0;
