--- include create
-- absent, completed, failed, cancelled -> pending; a live task is kept.
--
-- input    list of { key, rare } or of { key, at, delay_ms, payload, aside, priority, serial, permits, cost, owner,
--          policy, max_runs, expires_at, user_id, device_id, agent_id, stray }, each with what is no default
-- returns  { woke, per item { outcome, packed fields, payload beside the hash or false } };
--          the outcome RARE means that nothing was written: it is not for this script

local answers, rare = {}, {}

local function schedule(item)
  local key = item.key
  if item.rare or rare[key] then
    rare[key] = true
    return { RARE }
  end
  local limit = settings.rate_limit
  local task = as_table(call('HGETALL', named('task', key)))
  local is_live = LIVE[task.status]
  if (limit and (item.cost or 1) > limit.burst) or (not is_live and is_listed_elsewhere(task, item)) then
    rare[key] = true
    return { RARE }
  end
  if is_live then return { SCHEDULED.exists, packed(task), payload_of(key, task) } end
  local refusal = not accepts and SCHEDULED.disabled or (pending() >= settings.max_pending and SCHEDULED.full)
  if refusal then return { refusal, packed(task), payload_of(key, task) } end
  return { SCHEDULED.created, packed(create(key, task, item, item.at or now + (item.delay_ms or 0))), item.aside or false }
end

if not read_type() then return { 0 } end
for at, item in ipairs(input) do answers[at] = schedule(item) end
write_indexes()
write_counts()
return { wake(), answers }
