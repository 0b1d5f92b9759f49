--- include record
-- Set the kept counters of a type to what its indexes hold; the running totals are left alone.
--
-- input    nothing
-- returns  how many counters were wrong

local kept = as_table(call('HGETALL', named('counts')))
local there = {
  pending = call('ZCARD', named('queue')),
  running = call('ZCARD', named('running')),
  paused = call('ZCARD', named('paused')),
  failed = call('ZCARD', named('dead')),
  completed = num(kept.completed),
  cancelled = num(kept.cancelled),
}
for _, priority in ipairs(call('SMEMBERS', named('lanes'))) do
  there.pending = there.pending + call('ZCARD', named('queue', priority))
end
for _, serial in ipairs(call('SMEMBERS', named('serials'))) do
  there.pending = there.pending + call('ZCARD', named('parked', serial))
end
-- Completed and cancelled ones share an index: only if their sum is wrong must each be looked at.
if there.completed + there.cancelled ~= call('ZCARD', named('done')) then
  there.completed, there.cancelled = 0, 0
  for _, key in ipairs(call('ZRANGE', named('done'), 0, -1)) do
    local status = read(key).status
    if there[status] then there[status] = there[status] + 1 end
  end
end
local wrong = 0
for name, number in pairs(there) do
  if num(kept[name]) ~= number then
    wrong = wrong + 1
    call('HSET', named('counts'), name, number)
  end
end
return wrong
