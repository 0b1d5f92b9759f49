-- A new task where there is none, or where a finished one is: shared by schedule and touch.

local function fetch_all(items)
  local keys = {}
  for at = 1, #items do keys[at] = items[at].key end
  fetch(keys)
end

local pending_now

local function pending()
  pending_now = pending_now or num(call('HGET', named('counts'), STATUS.pending))
  return pending_now + (deltas[STATUS.pending] or 0)
end

local GIVEN = { 'owner', 'payload', 'serial', 'permits', 'cost', 'policy', 'max_runs', 'expires_at' }
local KEPT = { last_token = true, last_outcome = true, version = true }

-- What a finished task leaves behind: its number of lives, and what became of its last run.
local function clear(key, task)
  leave(key, task)
  count(task.status, -1)
  for name in pairs(task) do
    if TASK[name] and not KEPT[name] then task[name] = nil end
  end
  task.version = (task.version or 1) + 1
end

local function what_is_fixed(item)
  return fixed_of({
    created_at = now,
    user_id = item.user_id,
    device_id = item.device_id,
    agent_id = item.agent_id,
    trace = item.trace,
    trigger_mode = settings.trigger_mode ~= 'user_activity' and settings.trigger_mode or nil,
  })
end

-- absent, completed, failed, cancelled -> pending. What the record says beside the task is kept: its past, and the
-- fields of a version to come. Returns the task and its record.
local function create(key, task, item, scheduled_at)
  local status, had_payload = task.status, task.payload == ''
  if status then
    clear(key, task)
  else
    if next(task) then out_of(named('past'), key) end
    into(named('keys'), 0, key)
  end
  task.status, task.scheduled_at = TABLE.schedule[status or SPECIAL.absent], scheduled_at
  for _, name in ipairs(GIVEN) do
    if item[name] ~= nil then task[name] = item[name] end
  end
  local priority = item.priority or settings.priority
  if priority ~= NORMAL_LANE then task.priority = priority end
  task.first_activity_at, task.last_activity_at = item.first_activity_at, item.first_activity_at
  local record = write(key, task, what_is_fixed(item))
  if item.aside then
    call('SET', named('payload', key), item.aside)
  elseif had_payload then
    call('DEL', named('payload', key))
  end
  enter(key, task)
  if item.stray then call('SADD', named('user', item.user_id), key) end
  if item.owner then into(named('owned', item.owner), 0, key) end
  count(task.status, 1)
  count('created_total', 1)
  note_due(task)
  return task, record
end

-- A finished task that is listed under another user or owner, or as a schedule, is moved by the slow way.
local function is_listed_elsewhere(task, fixed, item)
  if task.status == nil then return false end
  return task.owner ~= item.owner or task.trigger ~= nil or unfixed(fixed).user_id ~= item.user_id
end
