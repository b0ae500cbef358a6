-- The tracker's area path, so that items can be selected by it. NULL: not read since the column
-- exists; '': the item has none. The next runs read parked and waiting items once to fill it.
ALTER TABLE heartbeat_state ADD COLUMN area_path TEXT;
