-- What only the third schema can say: a comment that waits for its delivery.
INSERT INTO outbox (kind, mark, run, item, revision, body, attempts, next_attempt, created_at) VALUES
 ('comment', 'comment/018f0000-0000-7000-8000-0000000000a1', '018f0000-0000-7000-8000-000000000001', 'ado/1', 4, 'A finding.', 1, 1763283900000, 1763283610000);
