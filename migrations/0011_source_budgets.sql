-- The source of the item that a session was about, so that a source can have a budget of its own.
-- NULL: triage, which is about items of several sources.
ALTER TABLE budget ADD COLUMN source TEXT;
UPDATE budget SET source =
    (SELECT substr(item, 1, instr(item, '/') - 1) FROM sessions
     WHERE sessions.session = budget.session AND item IS NOT NULL);
