-- A new task where there is none, or where a finished one is: shared by schedule and touch.

local pending_now

local function pending()
  pending_now = pending_now or num(call('HGET', named('counts'), 'pending'))
  return pending_now + (deltas.pending or 0)
end

local IDS = { 'user_id', 'device_id', 'agent_id' }

-- absent, completed, failed, cancelled -> pending. What the record says beside the task is kept: its past, and the
-- fields of a version to come.
local function make(key, old, item, scheduled_at)
  local task = {}
  for name, value in pairs(old) do
    if not TASK[name] then task[name] = value end
  end
  task.status = TABLE.schedule[old.status or 'absent']
  task.scheduled_at = scheduled_at
  task.created_at = now
  for _, name in ipairs(IDS) do task[name] = item[name] end
  for _, name in ipairs({ 'owner', 'payload', 'permits', 'cost', 'policy', 'max_runs', 'expires_at' }) do
    task[name] = item[name]
  end
  local priority = item.priority or settings.priority
  if priority ~= 5 then task.priority = priority end
  if settings.trigger_mode ~= 'user_activity' then task.trigger_mode = settings.trigger_mode end
  if old.status then
    task.version = num(old.version or 1) + 1
    task.last_token = old.last_token
    task.last_outcome = old.last_outcome
    leave(key, old)
    count(old.status, -1)
  elseif next(old) then
    call('ZREM', named('past'), key)
  end
  if item.first_activity_at then
    task.first_activity_at = item.first_activity_at
    task.last_activity_at = item.first_activity_at
  end
  save(key, old, task)
  if item.aside then
    call('SET', named('payload', key), item.aside)
  elseif old.payload == '' then
    call('DEL', named('payload', key))
  end
  enter(key, task)
  if not old.status then call('ZADD', named('keys'), 0, key) end
  if item.stray then call('SADD', named('user', item.user_id), key) end
  count(task.status, 1)
  count('created_total', 1)
  note_due(task)
  return task
end

-- A record that lists its user elsewhere is moved by the slow way.
local function changes_user(old, item) return old.status ~= nil and old.user_id ~= item.user_id end
