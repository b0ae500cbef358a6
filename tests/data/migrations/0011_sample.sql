-- What only the eleventh schema can say: what was spent on the items of one source.
INSERT INTO budget (session, run, stage, day, reserved, spent, source) VALUES
 ('018f0000-0000-7000-8000-0000000000b1', '018f0000-0000-7000-8000-000000000001', 'deep', '2025-11-16', 500000, 120000, 'ado');
