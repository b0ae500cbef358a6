-- What only the ninth schema can say: a session on another host, and one that a worker did for others.
UPDATE sessions SET host = 'build-2' WHERE session = '018f0000-0000-7000-8000-0000000000a1';
INSERT INTO sessions (session, run, stage, attempt, tier, keeper_pid, started_at, ended_at, outcome, applied, token, whole_end)
VALUES ('00000000-0000-7000-8000-0000000000f1', '00000000-0000-7000-8000-0000000000f0', 'deep', 1, 'pidns', 7,
        1763280000000, 1763280100000, '{"kind":"timed_out"}', 1, x'0102',
        '{"outcome":{"kind":"timed_out"},"output":null,"usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_creation_tokens":0,"cost":0,"reported":false},"suspended_until":null,"duration":{"secs":100,"nanos":0},"reads":0,"swept":0,"survivors":0,"stderr_tail":"","transcript":{"lines":[],"left_out":0}}');
