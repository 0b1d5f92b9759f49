--- include record
--- include create
-- A user was active: the checks of core/activity.py, in their order, and their effect.
--
-- input    list of { key, user_id, device_id, agent_id, at, trace, stray }
-- returns  { woke, per item { outcome, due time or '', coalesced } };
--          the outcome RARE means that nothing was written: it is not for this script

local rare = {}

local function coalesced(scheduled_at, times)
  count('coalesced_total', 1)
  return { TOUCHED.coalesced, scheduled_at or '', times or 0 }
end

local function join(key, task, fixed)
  task.last_activity_at, task.updated_at = now, now
  task.coalesced = (task.coalesced or 0) + 1
  if task.status == STATUS.running then
    if settings.on_busy == 'rerun' then task.dirty = true end
  elseif settings.mode == 'debounce' and (task.attempt or 0) == 0 and not task.manual then
    local first = task.first_activity_at or now
    local due_at = math.min(now + settings.interval_ms, first + (settings.max_wait_ms or 4 * settings.interval_ms))
    if due_at > task.scheduled_at then
      task.scheduled_at = due_at
      enter(key, task)
    end
  end
  write(key, task, fixed)
  return coalesced(task.scheduled_at, task.coalesced)
end

local function create_due(outcome, key, task, item, due_at)
  item.first_activity_at = now
  create(key, task, item, due_at)
  return { outcome, due_at, 0 }
end

local function touch(item)
  local key = item.key
  if not accepts then return { TOUCHED.disabled, '', 0 } end
  local task, fixed = read(key)
  local is_live = TABLE.touch[task.status]
  -- A due task that is put off lets go of its serial, and one may have to be let in instead.
  if rare[key] or (is_live and task.serial and settings.mode == 'debounce') or (not is_live and is_listed_elsewhere(task, fixed, item)) then
    rare[key] = true
    return { RARE, '', 0 }
  end
  local was_seen = item.at and task.last_claimed_at and item.at <= task.last_claimed_at
  if is_live then
    if was_seen then return coalesced(task.scheduled_at, task.coalesced) end
    return join(key, task, fixed)
  end
  if was_seen then return coalesced() end
  if (task.fail_count or 0) >= math.max(settings.max_retries, 1) and task.fail_until and now < task.fail_until then
    return { TOUCHED.blocked, '', 0 }
  end
  if pending() >= settings.max_pending then return { TOUCHED.full, '', 0 } end
  local last = task.last_exec_at
  if last and now < last + settings.interval_ms then
    if settings.cooldown == 'skip' then return { TOUCHED.cooldown, '', 0 } end
    return create_due(TOUCHED.deferred, key, task, item, last + settings.interval_ms)
  end
  return create_due(TOUCHED.created, key, task, item, now + settings.interval_ms)
end

if not read_type() then return { 0 } end
local answers = {}
fetch_all(input)
for at, item in ipairs(input) do answers[at] = touch(item) end
write_changes()
return { wake(), answers }
