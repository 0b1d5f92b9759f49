-- What most runs come to: a plain task that has succeeded, and left nothing to be said.

local SUCCEEDED = { ANSWER.ok, STATUS.completed }
local running, done, purge_at, purge_text, forget_at
local successes = 0

local function open_successes()
  running, done = named('running'), named('done')
  purge_at, forget_at = now + settings.task_ttl_ms, now + math.max(DAY, 2 * settings.interval_ms)
  purge_text = string.format('%.0f', purge_at)
end

-- False if it is not like that; then nothing was done.
local function succeeds(key, token, item)
  if item[3] ~= TRANSITION.complete or item[6] or item[7] or item[8] or item[11] then return false end
  local before = record_of(key)
  if not before or string.byte(before) == WAITING or not is_plain(others_of(before)) then return false end
  local record, row, fixed = completed(key, before, token, item[4] or 0, purge_at, forget_at)
  if not record then return false end
  append(named('runs'), RUNS_KEPT, ROW, row)
  put(key, record)
  out_of(running, key)
  into(done, purge_text, key)
  if followed then append_completion(key, fixed) end
  successes = successes + 1
  return true
end

local function count_successes()
  count(STATUS.running, -successes)
  count(STATUS.completed, successes)
  count(TOTALS[RUN_STATUS_OF[TRANSITION.complete]], successes)
end
