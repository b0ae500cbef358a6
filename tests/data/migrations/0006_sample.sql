-- What only the sixth schema can say: what triage read of an item.
INSERT INTO readings (key, fingerprint, read_at, parts, verdict) VALUES
 ('ado/1', '2:00', 1763283600000, '{"values":{"title":"Total is wrong"},"texts":{"Description":"0011223344 "}}', '{"id":1,"complexity":"simple","needs_deep_analysis":false,"reason":"A wish."}');
