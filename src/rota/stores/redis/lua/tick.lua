--- include record
--- include settle_rules
-- Sweep one type, and say when its next task is due.
--
-- running -> wherever leaving leads, for every lease that has run out. If nobody swept for more than half a lease, every
-- lease that was renewed since its last extension is extended first. If the clock has stepped back, so have the leases.
--
-- input    lease_ms   of the instance that ticks
--          due        set of the types whose next due time it wants to know
-- returns  { extended,
--            reaped as a flat list of key, deadline, record, payload beside it or false,
--            rare   as a flat list of key, deadline: leases that ran out, if any of them is not for this script,
--            idle   serials under which something is parked and nothing runs: the same,
--            next due time or '' },
--          or nothing if there is no such type

-- An outage, or a suspended host: nobody could renew, so nobody is to blame. Once: whoever does not renew then is dead.
local function extend(until_at)
  local running, extended = named('running'), 0
  local short = call('ZRANGEBYSCORE', running, '-inf', '(' .. string.format('%.0f', until_at))
  for _, key in ipairs(short) do
    local task, fixed = read(key)
    if task.status == STATUS.running and not task.extended then
      call('ZADD', running, until_at, key)
      task.lease_until, task.extended = until_at, true
      write(key, task, fixed)
      extended = extended + 1
    end
  end
  return extended
end

-- The clock has stepped back: leases that were good for seconds would be good for as long as it stepped.
local function set_back(by_ms, until_at)
  local running = named('running')
  local all = call('ZRANGE', running, 0, -1, 'WITHSCORES')
  for at = 1, #all, 2 do
    local key, lease_until = all[at], math.max(tonumber(all[at + 1]) - by_ms, until_at)
    call('ZADD', running, lease_until, key)
    local task, fixed = read(key)
    if task.status == STATUS.running then
      task.lease_until = lease_until
      write(key, task, fixed)
    end
  end
end

local function lost(task)
  return {
    transition = TRANSITION.reap,
    duration_ms = math.max(0, now - (task.claimed_at or now)),
    reason = LOST,
    error = string.format(LOST_ERROR, task.instance or 'None'),
    failure = LOST,
  }
end

local reaped, rare = {}, {}

local function has_run_out(task) return task.status == STATUS.running and task.lease_until <= now end

-- A series is not for this script; neither is a lease that was never renewed: was its run ever begun?
local function is_rare(task) return has_run_out(task) and (task.trigger or not task.renewed) end

local function reap(key, deadline, task, fixed, is_left)
  if task.status ~= STATUS.running then
    -- The record is the truth.
    call('ZREM', named('running'), key)
  elseif not has_run_out(task) then
    call('ZADD', named('running'), task.lease_until, key)
  elseif is_left then
    rare[#rare + 1] = key
    rare[#rare + 1] = deadline
  else
    local record = leave_running(key, task, fixed, lost(task))
    for _, each in ipairs({ key, deadline, record, payload_of(key, task) }) do reaped[#reaped + 1] = each end
  end
end

local function idle_serials()
  local idle = {}
  for _, serial in ipairs(call('SMEMBERS', named('serials'))) do
    if call('EXISTS', named('holders', serial)) == 0 then idle[#idle + 1] = serial end
  end
  table.sort(idle)
  return idle
end

local next_due

local function look_at(lane)
  local head = call('ZRANGEBYSCORE', lane, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if head[2] and (next_due == nil or tonumber(head[2]) < next_due) then next_due = tonumber(head[2]) end
end

if not read_type() then return false end
local swept_at = call('HGET', type_hash, 'swept_at')
call('HSET', type_hash, 'swept_at', now)
local extended, late_ms, patience_ms = 0, now - num(swept_at), math.floor(input.lease_ms / 2)
if not swept_at or late_ms > patience_ms then
  extended = extend(now + input.lease_ms)
elseif -late_ms > patience_ms then
  set_back(-late_ms, now + input.lease_ms)
end
local expired = call('ZRANGEBYSCORE', named('running'), '-inf', now, 'WITHSCORES', 'LIMIT', 0, REAP_PAGE)
local tasks, fixed, is_left = {}, {}, false
for at = 1, #expired, 2 do
  tasks[at], fixed[at] = read(expired[at])
  is_left = is_left or is_rare(tasks[at])
end
-- All in one step, here or there: who is let in where one has left depends on who else has.
for at = 1, #expired, 2 do reap(expired[at], expired[at + 1], tasks[at], fixed[at], is_left) end
unpark()
write_changes()
wake()
local idle = idle_serials()
if input.due[task_type] and runs then
  look_at(named('queue'))
  for _, priority in ipairs(call('SMEMBERS', named('lanes'))) do look_at(named('queue', priority)) end
end
return { extended, reaped, rare, idle, next_due or '' }
