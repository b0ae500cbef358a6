-- What a session read and said, in short and without heartbeat's credentials, as JSON. Kept as long
-- as events.
CREATE TABLE transcripts (
    session   TEXT    NOT NULL PRIMARY KEY,
    stored_at INTEGER NOT NULL,
    lines     TEXT    NOT NULL
) STRICT;
CREATE INDEX transcripts_by_age ON transcripts (stored_at);
