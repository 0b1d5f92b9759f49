-- The running tasks of a type that one claim took.
--
-- input    { instance, claim_id }
-- returns  list of keys

local held = {}
for _, key in ipairs(call('ZRANGE', named('running'), 0, -1)) do
  local found = call('HMGET', named('task', key), 'status', 'instance', 'claim_id')
  if found[1] == STATUS.running and found[2] == input[1] and found[3] == input[2] then held[#held + 1] = key end
end
return held
