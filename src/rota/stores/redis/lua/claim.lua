--- include record
--- include token
--- include lanes
--- include allowance
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

open_lanes()

local function candidates(wanted) return first_due(wanted + input.excluded, input.exclude) end

if input.step == 'look' then
  local found, seen = candidates(input.limit), {}
  for at = 1, math.min(input.limit, #found) do
    for _, each in ipairs({ found[at].rank, found[at].due_at, found[at].priority }) do seen[#seen + 1] = each end
  end
  return { now, #found < input.limit and next_due() or '', seen }
end

local function is_due(task) return task.status == STATUS.pending and not task.parked and task.scheduled_at <= now end

open_buckets()
local lease_until = now + (input.lease_ms or settings.timeout_ms)
local holders, is_asked = {}, false

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
  if is_asked then write_buckets() end
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
      -- The record is the truth: what an index says wrongly is put right.
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
