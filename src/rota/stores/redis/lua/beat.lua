-- An instance's sign of life.
--
-- KEYS[1]  instances
-- input    instance, beat (JSON)
-- returns  now

call('HSET', KEYS[1], input.instance, string.format('{"beat":%s,"seen_at":%.0f}', input.beat, now))
return now
