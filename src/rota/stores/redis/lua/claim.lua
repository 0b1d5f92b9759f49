--- include record
--- include token
-- pending -> running: due, in rank order, within rate and serial limits; a due task whose serial is busy is parked.
--
-- input    limit, instance, claim_id, lease_ms (or nothing: the type's timeout),
--          exclude   set of keys that are passed over, excluded   how many they are
--          step      nothing: as many as may start, up to the limit. Where several types share one limit, and each may
--                    be on a node of its own, the caller shares it out between two steps of each type:
--                    'look': write nothing, answer with the first due ones;
--                    'share': start the first due ones; what cannot start leaves its place to whoever is next in rank
-- returns  { now, when to ask again or '', flat list of key, record, payload beside it or false };
--          to 'look' { now, when the next one is due if fewer than the limit are, flat list of rank, due time, priority };
--          to 'share' the time is '' unless the rate allows no more until then;
--          or { now, RARE } if something is due that this script does not know: then nothing was written

if not read_type() or not runs or input.limit <= 0 then return { now, '', {} } end

local lanes = { { key = named('queue'), priority = NORMAL_LANE } }
for _, priority in ipairs(call('SMEMBERS', named('lanes'))) do
  lanes[#lanes + 1] = { key = named('queue', priority), priority = tonumber(priority) }
end

-- The first due ones of all lanes, in rank order. The record is the truth: what an index says wrongly is put right.
local function candidates(wanted)
  local found = {}
  for _, lane in ipairs(lanes) do
    local due = call('ZRANGEBYSCORE', lane.key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, wanted + input.excluded)
    for at = 1, #due, 2 do
      local key, due_at = due[at], tonumber(due[at + 1])
      if not input.exclude[key] then
        local rank = due_at - lane.priority * settings.aging_ms
        found[#found + 1] = { key = key, lane = lane.key, rank = rank, due_at = due_at, priority = lane.priority }
      end
    end
  end
  if #lanes > 1 then
    table.sort(found, function(one, other)
      if one.rank ~= other.rank then return one.rank < other.rank end
      if one.due_at ~= other.due_at then return one.due_at < other.due_at end
      return is_before(one.key, other.key)
    end)
  end
  return found
end

local function next_due()
  local first
  for _, lane in ipairs(lanes) do
    local head = call('ZRANGEBYSCORE', lane.key, '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if head[2] and (first == nil or tonumber(head[2]) < first) then first = tonumber(head[2]) end
  end
  return first or ''
end

if input.step == 'look' then
  local found, seen = candidates(input.limit), {}
  for at = 1, math.min(input.limit, #found) do
    for _, each in ipairs({ found[at].rank, found[at].due_at, found[at].priority }) do seen[#seen + 1] = each end
  end
  return { now, #found < input.limit and next_due() or '', seen }
end

local function is_due(task) return task.status == STATUS.pending and not task.parked and task.scheduled_at <= now end

-- The type's own buckets, with what is in them now. Spelled out for each: most types have none, and pay for none.
local rate, starts = settings.rate_limit, settings.start_limit
local bucket, tokens, filled_at = named('bucket', 'own'), 0, now
if rate then tokens, filled_at = refill(bucket, rate.rate, rate.burst) end
local start_bucket, start_tokens, starts_filled_at
if starts then
  start_bucket = named('bucket', 'starts')
  start_tokens, starts_filled_at = refill(start_bucket, starts.rate, starts.burst)
end
local wait_ms, is_asked

-- Paid for in both buckets, or in none.
local function grant(cost)
  if not rate and not starts then return true end
  -- A cost above the capacity would never be met: it takes the whole bucket instead.
  if rate then cost = math.min(cost, rate.burst) end
  if (rate and cost > tokens + 1e-9) or (starts and 1 > start_tokens + 1e-9) then
    wait_ms = rate and wait_for(tokens, cost, rate.rate) or 0
    if starts then wait_ms = math.max(wait_ms, wait_for(start_tokens, 1, starts.rate)) end
    return false
  end
  if rate then tokens = math.max(0, tokens - cost) end
  if starts then start_tokens = math.max(0, start_tokens - 1) end
  return true
end

local lease_until = now + (input.lease_ms or settings.timeout_ms)
local holders = {}

local function is_busy(task)
  local serial = task.serial
  if not serial then return false end
  holders[serial] = holders[serial] or call('SCARD', named('holders', serial))
  return holders[serial] >= num(task.permits or 1)
end

local function park(key, task, fixed)
  leave(key, task)
  task.parked = true
  write(key, task, fixed)
  enter(key, task)
end

-- What completed before this claim is dealt with by the run that starts now; it is remembered for the pump.
local function clear_need(key)
  local need = named('need', key)
  local found = as_table(call('HGETALL', need))
  for name, id in pairs(found) do
    if not was_seen(name) then
      call('HDEL', need, name)
      call('HSET', need, SEEN .. name, id)
    end
  end
  if next(found) then call('PEXPIRE', need, NEED_TTL_MS) end
end

local taken = {}

local function take(key, task, fixed)
  leave(key, task)
  task.status = TABLE.claim[task.status]
  task.dirty, task.parked, task.progress, task.renewed, task.extended = nil, nil, nil, nil, nil
  task.token, task.lease_until, task.instance, task.claim_id = next_token(task), lease_until, input.instance, input.claim_id
  task.claimed_at, task.updated_at, task.last_claimed_at = now, now, now
  task.claimed_version, task.fire_at, task.attempt = task.version or 1, task.scheduled_at, (task.attempt or 0) + 1
  enter(key, task)
  if task.serial then holders[task.serial] = holders[task.serial] + 1 end
  if settings.after[1] then clear_need(key) end
  local size = #taken
  taken[size + 1], taken[size + 2], taken[size + 3] = key, write(key, task, fixed), payload_of(key, task)
end

local function answer(ask_at)
  if is_asked then
    if rate then put_bucket(bucket, tokens, filled_at, rate.rate, rate.burst) end
    if starts then put_bucket(start_bucket, start_tokens, starts_filled_at, starts.rate, starts.burst) end
  end
  local number = #taken / 3
  if number > 0 then write_last_token() end
  count(STATUS.pending, -number)
  count(STATUS.running, number)
  write_counts()
  return { now, ask_at, taken }
end

-- Read before anything is written: a script that meets what it does not know leaves everything alone.
local function read_all(found, wanted)
  for at = 1, math.min(wanted, #found) do
    local task, fixed = read(found[at].key)
    if task.trigger or task.expires_at then return false end
    found[at].task, found[at].fixed = task, fixed
  end
  return true
end

for round = 1, CLAIM_ROUNDS do
  local wanted = input.limit - #taken / 3
  local found = candidates(wanted)
  if not read_all(found, wanted) then
    if #taken == 0 and round == 1 then return { now, RARE } end
    -- The next claim will find them first of all, and leave them to the slow way.
    return answer(now)
  end
  local number = math.min(wanted, #found)
  if number > 0 and not last_token then read_last_token(input.claim_id) end
  is_asked = is_asked or number > 0
  for at = 1, number do
    local key, task, fixed = found[at].key, found[at].task, found[at].fixed
    if not is_due(task) then
      out_of(found[at].lane, key)
      if task.status then enter(key, task) end
    elseif is_busy(task) then
      park(key, task, fixed)
    elseif grant(task.cost or 1) then
      take(key, task, fixed)
    else
      break
    end
  end
  write_indexes()
  if wait_ms then return answer(now + wait_ms) end
  if input.step == 'share' then return answer('') end
  if #taken / 3 >= input.limit then return answer(now) end
  if #found < wanted then return answer(next_due()) end
end
-- The bound on one step is reached, and more may be due behind what was parked: worth asking again at once.
return answer(now)
