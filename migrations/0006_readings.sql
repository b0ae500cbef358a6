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
