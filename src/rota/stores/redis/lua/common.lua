-- What every script begins with: names of keys, the clock, the type's settings, and how a task is read and written.
--
-- KEYS[1]  type:{type}, which leads to the right node: every other key has the same hash tag
-- ARGV[1]  the prefix of all keys
-- ARGV[2]  the type
-- ARGV[3]  now in milliseconds, or '' for the server's clock
-- ARGV[4]  the script's own arguments, packed
-- ARGV[5]  who asks: whoever hears a wake-up of its own need not heed it
--
-- Whatever is written in capitals and not defined here is handed in (source.py): TABLE, which is the lifecycle's, STATUS,
-- TRANSITION, ...

local call = redis.call
local prefix, task_type = ARGV[1], ARGV[2]
local tag = ':{' .. task_type .. '}'
local type_hash = prefix .. 'type' .. tag
local task_key = prefix .. 'task' .. tag .. ':'
local names = {}

local function named(kind, suffix)
  if suffix ~= nil then return prefix .. kind .. tag .. ':' .. suffix end
  local name = names[kind]
  if name == nil then
    name = prefix .. kind .. tag
    names[kind] = name
  end
  return name
end

local time = call('TIME')
local now = tonumber(ARGV[3]) or (tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
local input = cmsgpack.unpack(ARGV[4])

local RUNS_KEPT = 100000
local HISTORY_KEPT = 30
local COMPLETIONS_KEPT = 1000000

-- A payload over 64 bytes is kept beside the record, where an empty one marks its place.
local function payload_of(key, task)
  if task.payload == '' then return call('GET', named('payload', key)) end
  return false
end

local function as_table(flat)
  local found = {}
  for at = 1, #flat, 2 do found[flat[at]] = flat[at + 1] end
  return found
end

local function num(value) return tonumber(value) or 0 end

-- The order of keys everywhere else is that of their bytes; Lua's own `<` goes by the locale of the server's host.
local function is_before(one, other)
  for at = 1, math.min(#one, #other) do
    local this, that = string.byte(one, at), string.byte(other, at)
    if this ~= that then return this < that end
  end
  return #one < #other
end

-- --- the type ---

local settings, accepts, runs, followed

local function read_type()
  local found = call('HMGET', type_hash, 'config', 'overrides', 'followed')
  if not found[1] then return false end
  settings = cjson.decode(found[1])
  for name, value in pairs(settings) do
    if value == cjson.null then settings[name] = nil end
  end
  -- What an operator has overridden counts: see `Overrides` and `TypeRecord` in stores/base.py.
  local overrides = found[2] and cjson.decode(found[2]) or {}
  local enabled = settings.enabled and overrides.enabled ~= false
  accepts = enabled and overrides.draining ~= true
  runs = enabled and overrides.frozen ~= true
  settings.max_pending = tonumber(overrides.max_pending) or settings.max_pending
  if type(overrides.rate_limit) == 'table' then settings.rate_limit = overrides.rate_limit end
  if type(overrides.start_limit) == 'table' then settings.start_limit = overrides.start_limit end
  followed = found[3] and true or false
  return true
end

-- --- counters ---

local deltas = {}

local function count(name, delta) deltas[name] = (deltas[name] or 0) + delta end

local function write_counts()
  local counts = named('counts')
  for name, delta in pairs(deltas) do
    if delta ~= 0 then call('HINCRBY', counts, name, delta) end
  end
  deltas = {}
end

-- --- indexes: written together, one command for all tasks of a group ---

local MOST = 2000
local added, removed = {}, {}

local function write_index(key)
  local out, new = removed[key], added[key]
  if out then call('ZREM', key, unpack(out, 1, out.size)) end
  if new then call('ZADD', key, unpack(new, 1, new.size)) end
  removed[key], added[key] = nil, nil
end

local function write_indexes()
  for key in pairs(removed) do write_index(key) end
  for key in pairs(added) do write_index(key) end
end

local function into(key, score, member)
  local list = added[key]
  if list == nil then
    list = { size = 0 }
    added[key] = list
  end
  local size = list.size
  list[size + 1], list[size + 2], list.size = score, member, size + 2
  if size + 2 >= MOST then write_index(key) end
end

local function out_of(key, member)
  -- What was put in before must not come back afterwards.
  if added[key] or (removed[key] and removed[key].size >= MOST) then write_index(key) end
  local list = removed[key]
  if list == nil then
    list = { size = 0 }
    removed[key] = list
  end
  local size = list.size + 1
  list[size], list.size = member, size
end

-- --- the places of a task: one by its status, and those that go with it ---

local function lane_of(task)
  if task.priority == nil or task.priority == NORMAL_LANE then return named('queue') end
  return named('queue', task.priority)
end

local function enter(key, task)
  local status = task.status
  if status == STATUS.pending then
    if task.parked and task.serial then
      local rank = num(task.scheduled_at) - num(task.priority or NORMAL_LANE) * settings.aging_ms
      call('ZADD', named('parked', task.serial), rank, key)
      call('ZADD', named('parked'), task.scheduled_at, key)
      call('SADD', named('serials'), task.serial)
    else
      into(lane_of(task), task.scheduled_at, key)
      if task.priority and task.priority ~= NORMAL_LANE then call('SADD', named('lanes'), task.priority) end
    end
  elseif status == STATUS.running then
    into(named('running'), task.lease_until, key)
    if task.serial then call('SADD', named('holders', task.serial), key) end
  elseif status == STATUS.paused then
    into(named('paused'), task.scheduled_at, key)
  else
    into(named(status == STATUS.failed and 'dead' or 'done'), task.purge_at or 0, key)
    if status == STATUS.failed and task.failure then into(named('failed', task.failure), task.purge_at or 0, key) end
  end
  if task.expires_at and (status == STATUS.pending or status == STATUS.paused) then into(named('expires'), task.expires_at, key) end
  if task.owner and LIVE[status] then call('SADD', named('owner', task.owner), key) end
end

local function leave(key, task)
  local status = task.status
  if status == STATUS.pending then
    if task.parked and task.serial then
      local parked = named('parked', task.serial)
      call('ZREM', parked, key)
      call('ZREM', named('parked'), key)
      if call('EXISTS', parked) == 0 then call('SREM', named('serials'), task.serial) end
    else
      out_of(lane_of(task), key)
    end
  elseif status == STATUS.running then
    out_of(named('running'), key)
    if task.serial then call('SREM', named('holders', task.serial), key) end
  elseif status == STATUS.paused then
    out_of(named('paused'), key)
  else
    out_of(named(status == STATUS.failed and 'dead' or 'done'), key)
    if status == STATUS.failed and task.failure then out_of(named('failed', task.failure), key) end
  end
  if task.expires_at then out_of(named('expires'), key) end
  if task.owner then call('SREM', named('owner', task.owner), key) end
end

-- --- the run log, and what comes after ---

-- Ids follow the server's clock over all types, finer than a millisecond; where it stepped back, the stream goes on.
local millis = time[1] .. string.format('%03d', math.floor(tonumber(time[2]) / 1000)) .. '-'
local row = (tonumber(time[2]) % 1000) * 10000

local is_trimmed = {}

local function append(stream, kept, ...)
  row = row + 1
  -- Old rows go by whole blocks: to look for them once in a script is often enough.
  if not is_trimmed[stream] then
    is_trimmed[stream] = true
    local done = redis.pcall('XADD', stream, 'MAXLEN', '~', kept, millis .. row, ...)
    if type(done) == 'table' and done.err then return call('XADD', stream, 'MAXLEN', '~', kept, '*', ...) end
    return done
  end
  local done = redis.pcall('XADD', stream, millis .. row, ...)
  if type(done) == 'table' and done.err then return call('XADD', stream, '*', ...) end
  return done
end

-- A task that recurs keeps its last rows also when the log of a busy type has gone on without it.
local function log_run(key, packed_row, recurring)
  local id = append(named('runs'), RUNS_KEPT, ROW, packed_row)
  if recurring then call('XADD', named('history', key), 'MAXLEN', HISTORY_KEPT, id, ROW, packed_row) end
end

-- Whether a field of `need` says what was dealt with, and not what has completed since.
local function was_seen(name) return string.sub(name, 1, #SEEN) == SEEN end

-- --- token buckets, as core/bucket.py has them ---

local function refill(bucket, rate, burst)
  local found = call('HMGET', bucket, 'tokens', 'at')
  local tokens, at = tonumber(found[1]), tonumber(found[2])
  if tokens == nil or at == nil then return burst, now end
  -- A clock that steps back gives nothing and takes nothing.
  local later = math.max(at, now)
  return math.min(burst, tokens + (later - at) * rate / 1000), later
end

-- Rounded up as Python does it: the quotient is taken after the remainder. What is owed is paid off first.
local function wait_for(tokens, amount, rate)
  local missing = amount - tokens
  if missing <= 1e-9 then return 0 end
  local rest = math.fmod(missing * 1000, rate)
  local whole = math.floor((missing * 1000 - rest) / rate + 0.5)
  return math.max(1, rest > 0 and whole + 1 or whole)
end

-- The bucket outlives the time that it takes to fill it, and to pay off what is owed before: one that is not there
-- counts as full.
local function put_bucket(bucket, tokens, at, rate, burst)
  call('HSET', bucket, 'tokens', string.format('%.17g', tokens), 'at', string.format('%.0f', at))
  call('PEXPIRE', bucket, math.max(DAY, math.ceil(2000 * (burst - math.min(0, tokens)) / rate)))
end

-- --- waking ---

local earliest

local function note_due(task)
  local due_at = task.scheduled_at
  if task.status == STATUS.pending and not task.parked and (earliest == nil or due_at < earliest) then earliest = due_at end
end

local function wake()
  if earliest ~= nil and earliest <= now + SOON_MS then
    call('PUBLISH', prefix .. 'wake', ARGV[5])
    return 1
  end
  return 0
end
