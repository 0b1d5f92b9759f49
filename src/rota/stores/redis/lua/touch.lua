--- include making
-- A user was active: the checks of core/activity.py, in their order, and their effect.
--
-- input    list of { key, user_id, device_id, agent_id, at, stray }
-- returns  { woke, per item { outcome, due time or '', coalesced } };
--          the outcome 'rare' means that nothing was written: it is not for this script

local rare = {}

local function coalesced(scheduled_at, times)
  count('coalesced_total', 1)
  return { 'coalesced', scheduled_at or '', times or 0 }
end

local function join(key, old)
  local task = copy(old)
  task.last_activity_at = now
  task.coalesced = num(old.coalesced) + 1
  task.updated_at = now
  if old.status == 'running' then
    if settings.on_busy == 'rerun' then task.dirty = '1' end
  elseif settings.mode == 'debounce' and num(old.attempt) == 0 and not old.manual then
    local first = tonumber(old.first_activity_at) or now
    local due_at = math.min(now + settings.interval_ms, first + (settings.max_wait_ms or 4 * settings.interval_ms))
    task.scheduled_at = math.max(due_at, num(old.scheduled_at))
  end
  save(key, old, task)
  if task.scheduled_at ~= old.scheduled_at then enter(key, task) end
  return coalesced(tonumber(task.scheduled_at), tonumber(task.coalesced))
end

local function create(outcome, key, old, item, due_at)
  item.first_activity_at = now
  make(key, old, item, due_at)
  return { outcome, due_at, 0 }
end

local function touch(item)
  local key = item.key
  if not enabled then return { 'disabled', '', 0 } end
  local old = as_table(call('HGETALL', named('task', key)))
  local is_live = old.status and TABLE.touch[old.status]
  -- A due task that is put off lets go of its serial, and one may have to be let in instead.
  if rare[key] or (is_live and old.serial and settings.mode == 'debounce') or (not is_live and changes_user(old, item)) then
    rare[key] = true
    return { 'rare', '', 0 }
  end
  local was_seen = item.at and old.last_claimed_at and item.at <= num(old.last_claimed_at)
  if is_live then
    if was_seen then return coalesced(tonumber(old.scheduled_at), num(old.coalesced)) end
    return join(key, old)
  end
  if was_seen then return coalesced() end
  if num(old.fail_count) >= math.max(settings.max_retries, 1) and old.fail_until and now < num(old.fail_until) then
    return { 'blocked', '', 0 }
  end
  if pending() >= settings.max_pending then return { 'full', '', 0 } end
  local last = tonumber(old.last_exec_at)
  if last and now < last + settings.interval_ms then
    if settings.cooldown == 'skip' then return { 'cooldown', '', 0 } end
    return create('deferred', key, old, item, last + settings.interval_ms)
  end
  return create('created', key, old, item, now + settings.interval_ms)
end

if not read_type() then return { 0 } end
local answers = {}
for at, item in ipairs(input) do answers[at] = touch(item) end
write_counts()
return { wake(), answers }
