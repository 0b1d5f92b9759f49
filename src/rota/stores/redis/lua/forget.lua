--- include record
-- Remove the pasts of identities that have no task and are past their time.
--
-- input    list of keys
-- returns  how many were removed

-- Whether a completion has arrived that the identity still waits to use.
local function waits(key)
  for _, name in ipairs(call('HKEYS', named('need', key))) do
    if not was_seen(name) then return true end
  end
  return false
end

local forgotten = 0
for _, key in ipairs(input) do
  local task = read(key)
  if not task.status then
    if num(task.forget_at) <= now then
      forgotten = forgotten + call('DEL', task_key .. key)
      call('ZREM', named('past'), key)
      if not waits(key) then call('ZREM', named('keys'), key) end
    end
  else
    call('ZREM', named('past'), key)
  end
end
return forgotten
