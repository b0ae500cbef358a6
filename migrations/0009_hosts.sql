-- Where a session runs. NULL: on this machine; '': given to the fleet and not taken by a host yet;
-- else the host's name.
ALTER TABLE heartbeat_active_sessions ADD COLUMN host TEXT;
ALTER TABLE sessions ADD COLUMN host TEXT;

-- On a worker only: what the fleet's server knows a session by, until it took its end, and that end
-- as a whole, so that it can be delivered again.
ALTER TABLE sessions ADD COLUMN token BLOB;
ALTER TABLE sessions ADD COLUMN whole_end TEXT;
CREATE INDEX sessions_undelivered ON sessions (ended_at) WHERE token IS NOT NULL;
