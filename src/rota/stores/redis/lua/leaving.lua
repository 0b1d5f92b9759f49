-- Leaving `running`, for tasks that do not recur: the questions of core/lifecycle.py, in their order.

local MAX_CRASHES = 3
local MAX_SNOOZES = 100
local RUN_STATUS = {
  complete = 'success', discard = 'skipped', retry = 'error', fail = 'error',
  snooze = 'skipped', release = 'skipped', reap = 'lost',
}
local TOTALS = { success = 'succeeded_total', error = 'errored_total', lost = 'lost_total' }
local REASONS = { discard = 'discarded', snooze = 'snoozed', release = 'released' }
local FAILED = { retry = true, fail = true, reap = true }

-- A field that has its default is not written.
local function some(number)
  if number == 0 then return nil end
  return number
end

local function back_off(errors, chance)
  local retry = settings.retry
  local growth = retry.factor ^ math.min(errors - 1, 64)
  return math.floor(math.min(retry.base_ms * growth, retry.max_ms) * chance)
end

-- When the same work is tried again, or nil if it is not.
local function retry_at(task, settled)
  local event = settled.event
  if event == 'release' then return now end
  if event == 'snooze' then return now + (settled.after_ms or 0) end
  if event == 'reap' and num(task.crashes) < MAX_CRASHES then return now end
  if event == 'retry' and num(task.errors) <= settings.max_retries then
    return now + (settled.after_ms or back_off(num(task.errors), settled.chance))
  end
  return nil
end

-- The run counted where it counts, and the lease given up.
local function counted(task, settled)
  local event = settled.event
  local after = copy(task)
  after.token, after.lease_until, after.instance, after.claim_id = nil, nil, nil, nil
  after.last_token, after.last_outcome = task.token, event
  if event == 'retry' or event == 'fail' then after.errors = num(task.errors) + 1 end
  if event == 'reap' then after.crashes = num(task.crashes) + 1 end
  after.snoozes = event == 'snooze' and num(task.snoozes) + 1 or nil
  if event == 'snooze' or event == 'release' then after.attempt = some(num(task.attempt) - 1) end
  after.reason = settled.reason or REASONS[event]
  after.error, after.result = settled.error, settled.result
  after.updated_at = now
  return after
end

-- Success and failure both start the cooldown; a task that ended failed counts against the breaker.
local function remember(task, settled)
  local event = settled.event
  if event == 'snooze' or event == 'release' then return end
  task.last_exec_at = now
  task.forget_at = math.max(now + math.max(DAY, 2 * settings.interval_ms), num(task.forget_at))
  if event == 'complete' then
    task.fail_count, task.fail_until = nil, nil
  elseif event ~= 'discard' then
    local blocked_ms = math.max(settings.max_retries * settings.interval_ms * 2, DAY)
    task.forget_at = math.max(task.forget_at, now + 2 * blocked_ms)
    task.fail_count, task.fail_until = num(task.fail_count) + 1, now + blocked_ms
  end
end

local function breaker_is_open(task)
  return num(task.fail_count) >= math.max(settings.max_retries, 1) and task.fail_until ~= nil and now < num(task.fail_until)
end

local function finish(task, status)
  task.status = status
  task.want, task.dirty, task.parked, task.manual, task.next_fire = nil, nil, nil, nil, nil
  task.finished_at = now
  task.purge_at = now + (status == 'failed' and settings.dead_ttl_ms or settings.task_ttl_ms)
end

-- Waiting again, or paused if that was wanted during the run.
local function hold(task)
  task.status = task.want == 'pause' and 'paused' or 'pending'
  task.want, task.dirty = nil, nil
end

local function follow_up(task)
  hold(task)
  task.scheduled_at = now + settings.interval_ms
  task.manual, task.next_fire, task.fire_at = nil, nil, nil
  task.first_activity_at = task.last_activity_at
  task.coalesced, task.errors, task.crashes, task.snoozes, task.attempt = nil, nil, nil, nil, nil
end

local function row_of(key, task, settled, reason)
  local row = {
    key = key,
    user_id = task.user_id,
    status = RUN_STATUS[settled.event],
    trigger_mode = task.manual and 'manual' or task.trigger_mode,
    started_at = task.claimed_at or now,
    duration_ms = some(settled.duration_ms or 0),
    attempt = task.attempt,
    token = task.token,
    instance = task.instance,
    reason = reason,
    result = settled.result,
    error = settled.error,
  }
  if not task.manual then row.fire_at = task.fire_at end
  return row
end

local function tell(key, task)
  local fields = { 'task_type', task_type, 'key', key }
  for _, name in ipairs({ 'user_id', 'device_id', 'agent_id' }) do
    if task[name] then
      fields[#fields + 1] = name
      fields[#fields + 1] = task[name]
    end
  end
  append(named('after'), 1000000, fields)
end

local freed = {}

-- running -> wherever leaving leads; the task as it is then, already written.
local function leave_running(key, task, settled)
  local after = counted(task, settled)
  local again_at = retry_at(after, settled)
  local failed = FAILED[settled.event]
  if failed and again_at == nil and num(after.crashes) >= MAX_CRASHES then after.reason = 'poison' end
  local row = row_of(key, task, settled, after.reason)
  local completed = settled.event == 'complete'
  if task.want == 'cancel' then
    if completed then remember(after, settled) end
    finish(after, 'cancelled')
  elseif again_at ~= nil then
    hold(after)
    after.scheduled_at = again_at
    completed = false
  else
    remember(after, settled)
    if task.dirty and not breaker_is_open(after) then follow_up(after) else finish(after, failed and 'failed' or 'completed') end
  end
  save(key, task, after)
  leave(key, task)
  enter(key, after)
  count(task.status, -1)
  count(after.status, 1)
  if TOTALS[row.status] then count(TOTALS[row.status], 1) end
  log_run(key, as_list(row), false)
  if completed and followed then tell(key, after) end
  if task.serial then freed[task.serial] = true end
  note_due(after)
  return after
end

-- The best that are parked under a serial, by rank, then due time, then key.
local function best_parked(serial, limit)
  local found = call('ZRANGE', named('parked', serial), 0, limit + 8, 'WITHSCORES')
  local waiting = {}
  for at = 1, #found, 2 do
    local task = as_table(call('HGETALL', named('task', found[at])))
    if task.status == 'pending' and task.parked then
      waiting[#waiting + 1] = { key = found[at], rank = tonumber(found[at + 1]), task = task }
    end
  end
  table.sort(waiting, function(one, other)
    if one.rank ~= other.rank then return one.rank < other.rank end
    local this, that = num(one.task.scheduled_at), num(other.task.scheduled_at)
    if this ~= that then return this < that end
    return one.key < other.key
  end)
  return waiting
end

-- Whoever stops competing for a serial lets the best that waits back into its lane, in the same step.
local function unpark()
  for serial in pairs(freed) do
    local running = call('SCARD', named('holders', serial))
    local waiting = best_parked(serial, 1)
    if #waiting > 0 then
      local free = num(waiting[1].task.permits or 1) - running
      if free > 1 then waiting = best_parked(serial, free) end
      for at = 1, math.min(free, #waiting) do
        local key, task = waiting[at].key, waiting[at].task
        leave(key, task)
        task.parked = nil
        call('HDEL', named('task', key), 'parked')
        enter(key, task)
        note_due(task)
      end
    end
  end
end
