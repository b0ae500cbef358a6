-- What only the seventh schema can say: what a session read and said.
INSERT INTO transcripts (session, stored_at, lines) VALUES
 ('00000000-0000-7000-8000-000000000001', 1763283600000, '{"lines":[{"after_ms":1200,"kind":"read","text":"src/total.ts"}],"left_out":0}');
