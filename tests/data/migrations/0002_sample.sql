-- What only the second schema can say: an attempt that does not count, a triage that failed.
INSERT INTO attempts (key, fingerprint, attempt, session, run, claimed_at, ended_at, outcome, counted) VALUES
 ('ado/3', 'c1', 1, '018f0000-0000-7000-8000-0000000000a2', '018f0000-0000-7000-8000-000000000001', 1763283600000, 1763283610000, '{"kind":"provider_limit","why":"usage_limit"}', 0);
UPDATE heartbeat_state SET triage_failures = 2 WHERE key = 'ado/2';
INSERT INTO provider (name, until, reason) VALUES
 ('agent', 1763290800000, 'usage limit'),
 ('agent configuration', 1763290800000, 'correct [triage] model');
INSERT INTO budget (session, run, stage, day, reserved, spent) VALUES
 ('018f0000-0000-7000-8000-0000000000a1', '018f0000-0000-7000-8000-000000000001', 'deep', '2026-11-16', 1500000, 1500000),
 ('018f0000-0000-7000-8000-0000000000a2', '018f0000-0000-7000-8000-000000000001', 'deep', '2026-11-16', 1500000, 20000);
