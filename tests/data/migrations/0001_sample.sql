-- A small state as the first schema leaves it: one item in each phase, and their history.
INSERT INTO heartbeat_state (key, item_id, title, item_type, url, priority, revision, last_changed, fingerprint, processed_fingerprint, last_processed, phase, reason, attempts, next_attempt, deferrals, verdict, first_seen, last_seen) VALUES
 ('ado/1', 1, 'Done',     'Bug',  '', 1,    4, 1763280000000, 'a1', 'a1', 1763283600000, 'done',     'same_fingerprint',   1, NULL,          0, NULL, 1763280000000, 1763283600000),
 ('ado/2', 2, 'Pending',  'Bug',  '', NULL, 2, 1763280001000, 'b2', 'b1', 1763283600000, 'pending',  'max_deep_per_run',   0, NULL,          2, '{"id":2,"complexity":"simple","needs_deep_analysis":true,"modules":[],"reason":"It says so.","related":[]}', 1763280000000, 1763283600000),
 ('ado/3', 3, 'Waiting',  'Task', '', 2,    1, 1763280002000, 'c1', NULL, NULL,          'waiting',  'backoff',            1, 1763284500000, 0, NULL, 1763280000000, 1763283600000),
 ('ado/4', 4, 'Parked',   'Bug',  '', 3,    1, 1763280003000, 'd1', NULL, NULL,          'parked',   'attempts_exhausted', 3, NULL,          0, NULL, 1763280000000, 1763283600000),
 ('ado/5', 5, 'Vanished', 'Bug',  '', 3,    1, 1763280003000, 'e1', NULL, NULL,          'vanished', 'deleted',            0, NULL,          0, NULL, 1763280000000, 1763283600000);
INSERT INTO runs VALUES ('018f0000-0000-7000-8000-000000000001', 'manual', 1763283600000, 1763283700000, 'some_failed', NULL);
INSERT INTO sessions (session, run, stage, item, attempt, subject, tier, keeper_pid, started_at, ended_at, outcome, output, usage, survivors, applied) VALUES
 ('018f0000-0000-7000-8000-0000000000a1', '018f0000-0000-7000-8000-000000000001', 'deep', 'ado/1', 1, '[["ado/1","a1"]]', 'pidns', 100, 1763283600000, 1763283610000, '{"kind":"completed"}', '{}', NULL, 0, 1);
INSERT INTO attempts VALUES
 ('ado/1', 'a1', 1, '018f0000-0000-7000-8000-0000000000a1', '018f0000-0000-7000-8000-000000000001', 1763283600000, 1763283610000, '{"kind":"completed"}');
INSERT INTO findings (key, revision, fingerprint, session, run, created_at, verdict, finding) VALUES
 ('ado/1', 4, 'a1', '018f0000-0000-7000-8000-0000000000a1', '018f0000-0000-7000-8000-000000000001', 1763283610000, NULL, '{"summary":"s","likely_causes":[],"files":[],"suggested_change":"c","risk":"low","effort":"small","confidence":"high","open_questions":[]}');
INSERT INTO cursors VALUES ('ado', 1763280003000);
INSERT INTO events (at, run, event, session, item, body) VALUES (1763283600000, '018f0000-0000-7000-8000-000000000001', 'fetch_started', NULL, NULL, '{"event":"fetch_started"}');
