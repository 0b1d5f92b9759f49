-- Put a new text into a field of a hash, if the old one is still there.
--
-- KEYS[1]  the hash
-- input    field, old, new   ('' means that the field is absent)
-- returns  1, or 0 if somebody else was first: then nothing was written

if (call('HGET', KEYS[1], input.field) or '') ~= input.old then return 0 end
if input.new == '' then call('HDEL', KEYS[1], input.field) else call('HSET', KEYS[1], input.field, input.new) end
return 1
