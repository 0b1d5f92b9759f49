-- A new task where there is none, or where a finished one is: shared by schedule and touch.

local pending_now

local function pending()
  pending_now = pending_now or num(call('HGET', named('counts'), STATUS.pending))
  return pending_now + (deltas[STATUS.pending] or 0)
end

local GIVEN = {
  'user_id', 'device_id', 'agent_id', 'owner', 'payload', 'serial', 'permits', 'cost', 'policy', 'max_runs',
  'expires_at',
}
local KEPT = { last_token = true, last_outcome = true, version = true }

-- What a finished task leaves behind: its number of lives, and what became of its last run.
local function clear(key, task)
  leave(key, task)
  count(task.status, -1)
  put(task, 'version', num(task.version or 1) + 1)
  for name in pairs(TASK) do
    if not KEPT[name] then put(task, name, nil) end
  end
end

-- absent, completed, failed, cancelled -> pending. What the record says beside the task is kept: its past, and the
-- fields of a version to come.
local function create(key, task, item, scheduled_at)
  local status, had_payload = task.status, task.payload == ''
  if status then
    clear(key, task)
  else
    if next(task) then out_of(named('past'), key) end
    into(named('keys'), 0, key)
  end
  put(task, 'status', TABLE.schedule[status or SPECIAL.absent])
  put(task, 'scheduled_at', scheduled_at)
  put(task, 'created_at', now)
  for _, name in ipairs(GIVEN) do
    if item[name] ~= nil then put(task, name, item[name]) end
  end
  local priority = item.priority or settings.priority
  if priority ~= NORMAL_LANE then put(task, 'priority', priority) end
  if settings.trigger_mode ~= 'user_activity' then put(task, 'trigger_mode', settings.trigger_mode) end
  if item.first_activity_at then
    put(task, 'first_activity_at', item.first_activity_at)
    put(task, 'last_activity_at', item.first_activity_at)
  end
  save(key)
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
  return task
end

-- A finished task that is listed under another user or owner, or as a schedule, is moved by the slow way.
local function is_listed_elsewhere(task, item)
  return task.status ~= nil and (task.user_id ~= item.user_id or task.owner ~= item.owner or task.trigger ~= nil)
end
