--- include record
-- The running tasks of a type that one claim took.
--
-- input    { instance, claim_id }
-- returns  list of keys

local held = {}
for _, key in ipairs(call('ZRANGE', named('running'), 0, -1)) do
  local task = read(key)
  if task.status == STATUS.running and task.instance == input[1] and task.claim_id == input[2] then held[#held + 1] = key end
end
return held
