-- Leaving `running`, for tasks that do not recur: the questions of core/lifecycle.py, in their order.

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

-- Whoever is interrupted keeps its place in the line: it is as due as it was.
local function its_place(task) return math.min(num(task.scheduled_at), now) end

-- When the same work is tried again, or nil if it is not.
local function retry_at(task, settled)
  local transition = settled.transition
  if transition == TRANSITION.release then return its_place(task) end
  if transition == TRANSITION.snooze then return now + (settled.after_ms or 0) end
  if transition == TRANSITION.reap and num(task.crashes) < MAX_CRASHES then return its_place(task) end
  if transition == TRANSITION.retry and num(task.errors) <= settings.max_retries then
    return now + (settled.after_ms or back_off(num(task.errors), settled.chance))
  end
  return nil
end

local LEASE = { 'token', 'lease_until', 'instance', 'claim_id', 'renewed', 'extended' }
local WISHES = { 'want', 'dirty' }
local WAITING = { 'want', 'dirty', 'parked', 'manual', 'next_fire' }
local COUNTS = { 'manual', 'next_fire', 'fire_at', 'coalesced', 'errors', 'crashes', 'snoozes', 'attempt' }

local function put_nothing(task, names)
  for at = 1, #names do
    if task[names[at]] ~= nil then put(task, names[at], nil) end
  end
end

-- The run counted where it counts, and the lease given up.
local function give_up(task, settled)
  local transition = settled.transition
  put(task, 'last_token', task.token)
  put(task, 'last_outcome', transition)
  put_nothing(task, LEASE)
  if ERRED[transition] then put(task, 'errors', num(task.errors) + 1) end
  if transition == TRANSITION.reap then put(task, 'crashes', num(task.crashes) + 1) end
  put(task, 'snoozes', transition == TRANSITION.snooze and num(task.snoozes) + 1 or nil)
  if PUT_OFF[transition] then put(task, 'attempt', some(num(task.attempt) - 1)) end
  put(task, 'reason', settled.reason or REASON_OF[transition])
  put(task, 'error', settled.error)
  put(task, 'result', settled.result)
  put(task, 'updated_at', now)
end

-- Success and failure both start the cooldown; a task that ended failed counts against the breaker.
local function remember(task, settled)
  local transition = settled.transition
  if PUT_OFF[transition] then return end
  local forget_at = math.max(now + math.max(DAY, 2 * settings.interval_ms), num(task.forget_at))
  put(task, 'last_exec_at', now)
  if transition == TRANSITION.complete then
    put(task, 'fail_count', nil)
    put(task, 'fail_until', nil)
  elseif transition ~= TRANSITION.discard then
    local blocked_ms = math.max(settings.max_retries * settings.interval_ms * 2, DAY)
    forget_at = math.max(forget_at, now + 2 * blocked_ms)
    put(task, 'fail_count', num(task.fail_count) + 1)
    put(task, 'fail_until', now + blocked_ms)
  end
  put(task, 'forget_at', forget_at)
end

local function breaker_is_open(task)
  local is_over = num(task.fail_count) >= math.max(settings.max_retries, 1)
  return is_over and task.fail_until ~= nil and now < num(task.fail_until)
end

local function finish(task, status)
  put(task, 'status', status)
  put_nothing(task, WAITING)
  put(task, 'finished_at', now)
  put(task, 'purge_at', now + (status == STATUS.failed and settings.dead_ttl_ms or settings.task_ttl_ms))
end

-- Waiting again, or paused if that was wanted during the run.
local function hold(task, scheduled_at)
  put(task, 'status', task.want == WANT.pause and STATUS.paused or STATUS.pending)
  put_nothing(task, WISHES)
  put(task, 'scheduled_at', scheduled_at)
end

local function follow_up(task)
  hold(task, now + settings.interval_ms)
  put_nothing(task, COUNTS)
  put(task, 'first_activity_at', task.last_activity_at)
end

local function add(fields, name, value)
  local size = #fields
  fields[size + 1], fields[size + 2] = name, value
end

local RAN = { 'user_id', 'attempt', 'token', 'instance', 'fire_at', 'trigger_mode' }
local RAN_BY_HAND = { 'user_id', 'attempt', 'token', 'instance' }
local ENDED = { 'result', 'error' }

-- The run's row, from the task as it ran; how it ended comes with `settled`.
local function row_of(key, task, settled)
  local fields = { 'key', key, 'status', RUN_STATUS_OF[settled.transition], 'started_at', task.claimed_at or now }
  if task.manual then add(fields, 'trigger_mode', 'manual') end
  for _, name in ipairs(task.manual and RAN_BY_HAND or RAN) do
    if task[name] then add(fields, name, task[name]) end
  end
  if some(settled.duration_ms) then add(fields, 'duration_ms', settled.duration_ms) end
  for _, name in ipairs(ENDED) do
    if settled[name] then add(fields, name, settled[name]) end
  end
  return fields
end

local function append_completion(key, task)
  local fields = { 'task_type', task_type, 'key', key }
  for _, name in ipairs({ 'user_id', 'device_id', 'agent_id' }) do
    if task[name] then add(fields, name, task[name]) end
  end
  append(named('after'), COMPLETIONS_KEPT, fields)
end

local freed = {}

-- running -> wherever leaving leads. The task is changed and written.
local function leave_running(key, task, settled)
  local row = row_of(key, task, settled)
  local total = TOTALS[RUN_STATUS_OF[settled.transition]]
  local wants_cancel, is_dirty = task.want == WANT.cancel, task.dirty
  local failed, completed = FAILED[settled.transition], settled.transition == TRANSITION.complete
  count(task.status, -1)
  leave(key, task)
  give_up(task, settled)
  local again_at = retry_at(task, settled)
  if failed and again_at == nil and num(task.crashes) >= MAX_CRASHES then put(task, 'reason', POISON) end
  if task.reason then add(row, 'reason', task.reason) end
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
  save(key)
  enter(key, task)
  count(task.status, 1)
  if total then count(total, 1) end
  log_run(key, row, false)
  if completed and followed then append_completion(key, task) end
  if task.serial then freed[task.serial] = true end
  note_due(task)
end

-- The best that are parked under a serial, by rank, then due time, then key.
local function best_parked(serial, limit)
  local found = call('ZRANGE', named('parked', serial), 0, limit + 8, 'WITHSCORES')
  local waiting = {}
  for at = 1, #found, 2 do
    local task = as_table(call('HGETALL', named('task', found[at])))
    if task.status == STATUS.pending and task.parked then
      waiting[#waiting + 1] = { key = found[at], rank = tonumber(found[at + 1]), task = task }
    end
  end
  table.sort(waiting, function(one, other)
    if one.rank ~= other.rank then return one.rank < other.rank end
    local this, that = num(one.task.scheduled_at), num(other.task.scheduled_at)
    if this ~= that then return this < that end
    return is_before(one.key, other.key)
  end)
  return waiting
end

-- Whoever stops competing for a serial lets the best that waits back into its lane, in the same step.
local function unpark()
  write_indexes()
  for serial in pairs(freed) do
    local running = call('SCARD', named('holders', serial))
    local waiting = best_parked(serial, 1)
    if #waiting > 0 then
      local free = num(waiting[1].task.permits or 1) - running
      if free > 1 then waiting = best_parked(serial, free) end
      for at = 1, math.min(free, #waiting) do
        local key, task = waiting[at].key, waiting[at].task
        leave(key, task)
        put(task, 'parked', nil)
        save(key)
        enter(key, task)
        note_due(task)
      end
    end
  end
end
