-- What only the fourth schema can say: what a person thought of a finding.
INSERT INTO feedback (session, key, opinion, note, given_at)
SELECT session, key, 'useful', 'Fixed as suggested.', 1763283700000 FROM findings WHERE key = 'ado/1';
