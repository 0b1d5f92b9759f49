-- Leaving `running`, for tasks that do not recur: the questions of core/lifecycle.py, in their order.

local function back_off(errors, chance)
  local retry = settings.retry
  local growth = retry.factor ^ math.min(errors - 1, 64)
  return math.floor(math.min(retry.base_ms * growth, retry.max_ms) * chance)
end

-- Whoever is interrupted keeps its place in the line: it is as due as it was.
local function its_place(task) return math.min(task.scheduled_at, now) end

-- When the same work is tried again, or nil if it is not.
local function retry_at(task, settled)
  local transition = settled.transition
  if transition == TRANSITION.release then return its_place(task) end
  if transition == TRANSITION.snooze then return now + (settled.after_ms or 0) end
  if transition == TRANSITION.reap and task.crashes < MAX_CRASHES then return its_place(task) end
  if transition == TRANSITION.retry and task.errors <= settings.max_retries then
    return now + (settled.after_ms or back_off(task.errors, settled.chance))
  end
  return nil
end

-- The run counted where it counts, and why it ended.
local function count_run(task, settled)
  local transition = settled.transition
  if ERRED[transition] then task.errors = (task.errors or 0) + 1 end
  if transition == TRANSITION.reap then task.crashes = (task.crashes or 0) + 1 end
  task.snoozes = transition == TRANSITION.snooze and (task.snoozes or 0) + 1 or nil
  task.reason, task.error, task.result = settled.reason or REASON_OF[transition], settled.error, settled.result
  task.failure = settled.failure
end

local function give_up(task, settled)
  local transition = settled.transition
  task.last_token, task.last_outcome, task.updated_at = task.token, transition, now
  task.token, task.lease_until, task.instance, task.claim_id, task.renewed, task.extended = nil, nil, nil, nil, nil, nil
  if PUT_OFF[transition] then task.attempt = task.attempt - 1 end
end

-- Success and failure both start the cooldown; a task that ended failed counts against the breaker.
local function remember(task, settled)
  local transition = settled.transition
  if PUT_OFF[transition] then return end
  local forget_at = math.max(now + math.max(DAY, 2 * settings.interval_ms), task.forget_at or 0)
  task.last_exec_at = now
  if transition == TRANSITION.complete then
    task.fail_count, task.fail_until = nil, nil
  elseif transition ~= TRANSITION.discard then
    local blocked_ms = math.max(settings.max_retries * settings.interval_ms * 2, DAY)
    forget_at = math.max(forget_at, now + 2 * blocked_ms)
    task.fail_count, task.fail_until = (task.fail_count or 0) + 1, now + blocked_ms
  end
  task.forget_at = forget_at
end

local function breaker_is_open(task)
  local is_over = (task.fail_count or 0) >= math.max(settings.max_retries, 1)
  return is_over and task.fail_until ~= nil and now < task.fail_until
end

local function finish(task, status)
  task.status = status
  task.want, task.dirty, task.parked, task.manual, task.next_fire = nil, nil, nil, nil, nil
  task.finished_at = now
  task.purge_at = now + (status == STATUS.failed and settings.dead_ttl_ms or settings.task_ttl_ms)
end

-- Waiting again, or paused if that was wanted during the run.
local function hold(task, scheduled_at)
  task.status = task.want == WANT.pause and STATUS.paused or STATUS.pending
  task.want, task.dirty = nil, nil
  task.scheduled_at = scheduled_at
end

local function follow_up(task)
  hold(task, now + settings.interval_ms)
  task.manual, task.next_fire, task.fire_at = nil, nil, nil
  task.coalesced, task.errors, task.crashes, task.snoozes, task.attempt = nil, nil, nil, nil, nil
  task.first_activity_at = task.last_activity_at
end

-- The run's row, from the task as it ran; how it ended comes with `settled`.
local function row_of(key, task, fixed, settled)
  local by_hand, due_at = task.manual, task.scheduled_at
  local fire_at = not by_hand and task.fire_at or NONE
  return packed_row(
    RUN_STATUS_OF[settled.transition], task.claimed_at or now, fire_at, task.token,
    task.attempt or 0, settled.duration_ms or 0, task.instance or '', key, fixed,
    {
      trigger_mode = by_hand and 'manual' or nil, reason = task.reason, result = settled.result, error = settled.error,
      due_at = due_at ~= fire_at and due_at or nil, failure = settled.failure,
    })
end

local function append_completion(key, fixed)
  local fields, known = { 'task_type', task_type, 'key', key }, unfixed(fixed)
  for _, name in ipairs({ 'user_id', 'device_id', 'agent_id', 'trace' }) do
    if known[name] then
      fields[#fields + 1] = name
      fields[#fields + 1] = known[name]
    end
  end
  append(named('after'), COMPLETIONS_KEPT, unpack(fields))
end

local freed = {}

-- running -> wherever leaving leads. The task is changed, its record written and handed out.
local function leave_running(key, task, fixed, settled)
  local total = TOTALS[RUN_STATUS_OF[settled.transition]]
  local wants_cancel, is_dirty = task.want == WANT.cancel, task.dirty
  local failed, completed = FAILED[settled.transition], settled.transition == TRANSITION.complete
  count(task.status, -1)
  leave(key, task)
  count_run(task, settled)
  local again_at = retry_at(task, settled)
  if failed and again_at == nil and (task.crashes or 0) >= MAX_CRASHES then task.reason = POISON end
  log_run(key, row_of(key, task, fixed, settled), false)
  give_up(task, settled)
  if wants_cancel then
    if completed then remember(task, settled) end
    finish(task, STATUS.cancelled)
  elseif again_at ~= nil then
    hold(task, again_at)
    completed = false
  else
    remember(task, settled)
    if is_dirty and not breaker_is_open(task) then follow_up(task) else finish(task, failed and STATUS.failed or STATUS.completed) end
  end
  local record = write(key, task, fixed)
  enter(key, task)
  count(task.status, 1)
  if total then count(total, 1) end
  if completed and followed then append_completion(key, fixed) end
  if task.serial then freed[task.serial] = true end
  note_due(task)
  return record
end

-- The best that are parked under a serial, by rank, then due time, then key.
local function best_parked(serial, limit)
  local found = call('ZRANGE', named('parked', serial), 0, limit + 8, 'WITHSCORES')
  local waiting = {}
  for at = 1, #found, 2 do
    local task, fixed = read(found[at])
    if task.status == STATUS.pending and task.parked then
      waiting[#waiting + 1] = { key = found[at], rank = tonumber(found[at + 1]), task = task, fixed = fixed }
    end
  end
  table.sort(waiting, function(one, other)
    if one.rank ~= other.rank then return one.rank < other.rank end
    local this, that = one.task.scheduled_at, other.task.scheduled_at
    if this ~= that then return this < that end
    return is_before(one.key, other.key)
  end)
  return waiting
end

-- Whoever stops competing for a serial lets the best that waits back into its lane, in the same step.
local function unpark()
  write_changes()
  for serial in pairs(freed) do
    local running = call('SCARD', named('holders', serial))
    local waiting = best_parked(serial, 1)
    if #waiting > 0 then
      local free = (waiting[1].task.permits or 1) - running
      if free > 1 then waiting = best_parked(serial, free) end
      for at = 1, math.min(free, #waiting) do
        local key, task = waiting[at].key, waiting[at].task
        leave(key, task)
        task.parked = nil
        write(key, task, waiting[at].fixed)
        enter(key, task)
        note_due(task)
      end
    end
  end
end
