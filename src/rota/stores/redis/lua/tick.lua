-- Sweep one type, and say when its next task is due.
--
-- input    lease_ms   of the instance that ticks
--          due        set of the types whose next due time it wants to know
-- returns  { extended, expired as a flat list of key and deadline, idle serials, next due time or '' },
--          or nothing if there is no such type
--
-- If nobody swept for more than half a lease, every lease is extended once and nothing is reaped.

local REAP_PAGE = 200
local next_due

local function extend(until_at)
  local running = named('running')
  local short = call('ZRANGEBYSCORE', running, '-inf', '(' .. string.format('%.0f', until_at))
  for _, key in ipairs(short) do
    call('ZADD', running, until_at, key)
    if call('HEXISTS', named('task', key), 'token') == 1 then call('HSET', named('task', key), 'lease_until', until_at) end
  end
  return #short
end

local function idle_serials()
  local idle = {}
  for _, serial in ipairs(call('SMEMBERS', named('serials'))) do
    if call('EXISTS', named('holders', serial)) == 0 then idle[#idle + 1] = serial end
  end
  table.sort(idle)
  return idle
end

local function look_at_lane(lane)
  local head = call('ZRANGEBYSCORE', lane, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if #head > 0 and (next_due == nil or tonumber(head[2]) < next_due) then next_due = tonumber(head[2]) end
end

local function look_ahead()
  if not enabled then return end
  look_at_lane(named('queue'))
  for _, priority in ipairs(call('SMEMBERS', named('lanes'))) do look_at_lane(named('queue', priority)) end
end

if not read_type() then return false end
local swept_at = call('HGET', type_hash, 'swept_at')
call('HSET', type_hash, 'swept_at', now)
local extended, expired = 0, {}
if not swept_at or math.abs(now - tonumber(swept_at)) > math.floor(input.lease_ms / 2) then
  extended = extend(now + input.lease_ms)
else
  expired = call('ZRANGEBYSCORE', named('running'), '-inf', now, 'WITHSCORES', 'LIMIT', 0, REAP_PAGE)
end
local idle = idle_serials()
if input.due[task_type] then look_ahead() end
return { extended, expired, idle, next_due or '' }
