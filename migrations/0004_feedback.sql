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
CREATE INDEX findings_by_session ON findings (session);
