-- What only the twelfth schema can say: a finding whose file changed since.
INSERT INTO stale_findings (session, key, commits, total, files, noted_at)
 SELECT session, key, '[{"id":"abc","subject":"Round once","at":"2026-11-17T08:00:00Z"}]', 1, '["src/a.rs"]', created_at + 90000
 FROM findings WHERE key = 'ado/1';
