-- What only the eighth schema can say: what a finding was made with, and what fixed its item.
UPDATE findings SET model = 'sonnet', prompt = '0011223344556677' WHERE key = 'ado/1';
INSERT INTO fixes (session, key, fixed_at, commits, changed, named, hits, scored_at)
 SELECT session, key, created_at + 60000, '[{"id":"abc","why":"#number in the message"}]', '["src/a.rs"]', 2, 1, created_at + 90000
 FROM findings WHERE key = 'ado/1';
