-- What only the tenth schema can say: an item whose words are indexed, and a duplicate with its reason.
INSERT INTO indexed_items (id, key, print) VALUES (1, 'ado/1', 'aa');
INSERT INTO item_words (rowid, title, text) VALUES (1, 'done', 'wish for a total');
INSERT INTO duplicates (key, other, why) VALUES ('ado/3', 'ado/1', 'both lack the total');
