-- The words of every item seen, to find items like a new one. The index alone is stored, not the texts.
CREATE TABLE indexed_items (
    id    INTEGER NOT NULL PRIMARY KEY,
    key   TEXT    NOT NULL UNIQUE,
    -- Of the indexed words: they are not written again while they stay the same.
    print TEXT    NOT NULL
) STRICT;
CREATE VIRTUAL TABLE item_words USING fts5 (
    title, text, content = '', contentless_delete = 1,
    -- Words come separated by spaces, in lower case and without their endings.
    tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* Co'"
);
CREATE VIRTUAL TABLE item_word_counts USING fts5vocab (item_words, row);

-- Which items triage took for reports of the same thing.
CREATE TABLE duplicates (
    key   TEXT NOT NULL,
    other TEXT NOT NULL,
    why   TEXT NOT NULL,
    PRIMARY KEY (key, other)
) STRICT, WITHOUT ROWID;
CREATE INDEX duplicates_by_other ON duplicates (other);
-- Verdicts of earlier versions name numbers of the same source and give no reason.
INSERT INTO duplicates (key, other, why)
    SELECT DISTINCT s.key, rtrim(s.key, '0123456789') || d.value, ''
    FROM heartbeat_state s, json_each(s.verdict, '$.duplicates') d
    WHERE s.verdict IS NOT NULL AND d.type = 'integer';
