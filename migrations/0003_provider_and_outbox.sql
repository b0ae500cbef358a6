-- What is known about the model provider, as one JSON value: breaker, stated limit, refused
-- credential (a keyed fingerprint, never the credential), last answer, fault of the configuration.
CREATE TABLE provider_record (
    name   TEXT NOT NULL PRIMARY KEY,
    record TEXT NOT NULL
) STRICT;
-- A refused credential of the older form is simply tried again.
INSERT INTO provider_record (name, record)
    SELECT 'agent', json_object(
        'limit', json((SELECT json_object(
                      'until', strftime('%Y-%m-%dT%H:%M:%fZ', until / 1000.0, 'unixepoch'),
                      'reason', reason)
                  FROM provider WHERE name = 'agent' AND reason NOT LIKE 'authentication%')),
        'agent_fault', (SELECT reason FROM provider WHERE name = 'agent configuration'))
    WHERE EXISTS (SELECT 1 FROM provider);
DROP TABLE provider;

-- 1 where `spent` is the worst case of a session that ended without reporting a cost.
ALTER TABLE budget ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;
UPDATE budget SET estimated = 1
    WHERE spent > 0 AND spent = reserved AND session NOT IN
        (SELECT session FROM sessions WHERE coalesce(json_extract(usage, '$.cost'), 0) > 0);

-- What is to be published, stored in the transaction that makes it due and delivered afterwards, by
-- this run or a later one.
CREATE TABLE outbox (
    id           INTEGER NOT NULL PRIMARY KEY,
    kind         TEXT    NOT NULL CHECK (kind IN ('comment', 'digest')),
    -- The same for the same message: it is stored once.
    mark         TEXT    NOT NULL UNIQUE,
    run          TEXT    NOT NULL,
    item         TEXT,
    -- The revision a comment is about.
    revision     INTEGER,
    -- A comment's text; a digest is made from the stored run when it is sent.
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
