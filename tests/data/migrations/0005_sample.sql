-- What only the fifth schema can say: the area of an item.
UPDATE heartbeat_state SET area_path = 'Shop\Web' WHERE key = 'ado/1';
