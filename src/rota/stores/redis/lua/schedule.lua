--- include record
--- include create
-- absent, completed, failed, cancelled -> pending; a live task is kept.
--
-- input    list of { key, rare } or of { key, at, delay_ms, payload, aside, priority, serial, permits, cost, owner,
--          policy, max_runs, expires_at, user_id, device_id, agent_id, trace, stray }, each with what is no default
-- returns  { woke, per item { outcome, record or '', payload beside it or false } };
--          the outcome RARE means that nothing was written: it is not for this script

local answers, rare = {}, {}

local function schedule(item)
  local key = item.key
  if item.rare or rare[key] then
    rare[key] = true
    return { RARE }
  end
  local limit = settings.rate_limit
  local task, fixed = read(key)
  local is_live = LIVE[task.status]
  if (limit and (item.cost or 1) > limit.burst) or (not is_live and is_listed_elsewhere(task, fixed, item)) then
    rare[key] = true
    return { RARE }
  end
  local outcome = is_live and SCHEDULED.exists or not accepts and SCHEDULED.disabled
    or (pending() >= settings.max_pending and SCHEDULED.full)
  if outcome then return { outcome, record_of(key) or '', payload_of(key, task) } end
  local _, record = create(key, task, item, item.at or now + (item.delay_ms or 0))
  return { SCHEDULED.created, record, item.aside or false }
end

if not read_type() then return { 0 } end
fetch_all(input)
for at, item in ipairs(input) do answers[at] = schedule(item) end
write_changes()
return { wake(), answers }
