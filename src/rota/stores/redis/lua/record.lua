-- How a task is read and written: the record of codec.py, which says what lies where.
--
-- A task is a table of its fields; one that is at its default may be missing. A field that is not known here stays in
-- the table and in the record. What most runs need is not even made a table: see plain.lua.
--
-- Records that are read together are fetched by one command, and those that were changed are written by one when the
-- script is through (`write_changes`): a command for each costs more than all that is done with it here.

local function names_of(codes)
  local names = {}
  for name, code in pairs(codes) do names[code] = name end
  return names
end

local STATUS_NAME, OUTCOME_NAME = names_of(STATUS_CODE), names_of(OUTCOME_CODE)
local NOTHING_FIXED = struct.pack('>H', 0)

-- What never changes is packed once: scripts pass it through.
local function fixed_of(given)
  if next(given) == nil then return NOTHING_FIXED end
  local packed = cmsgpack.pack(given)
  return struct.pack('>H', #packed) .. packed
end

-- The same as a table.
local function unfixed(fixed)
  if fixed == NOTHING_FIXED then return {} end
  return cmsgpack.unpack(string.sub(fixed, 3))
end

-- What follows a head: the fixed part; the other fields come into the table.
local function read_rest(record, at, fields)
  local stop = at + 1 + struct.unpack('>H', record, at)
  if stop < #record then
    for name, value in pairs(cmsgpack.unpack(string.sub(record, stop + 1))) do fields[name] = value end
  end
  return string.sub(record, at, stop)
end

local function rest_of(fields, fixed)
  local others
  for name, value in pairs(fields) do
    if not IN_HEAD[name] then
      others = others or {}
      others[name] = value
    end
  end
  return others and fixed .. cmsgpack.pack(others) or fixed
end

local function read_waiting(record)
  local _, status, scheduled_at, updated_at, first_activity_at, last_activity_at, coalesced, at =
    struct.unpack(WAITING_HEAD, record)
  return {
    status = STATUS_NAME[status],
    scheduled_at = scheduled_at ~= NONE and scheduled_at or nil,
    updated_at = updated_at ~= NONE and updated_at or nil,
    first_activity_at = first_activity_at ~= NONE and first_activity_at or nil,
    last_activity_at = last_activity_at ~= NONE and last_activity_at or nil,
    coalesced = coalesced,
  }, at
end

local function read_claimed(record)
  local _, status, scheduled_at, updated_at, first_activity_at, last_activity_at, coalesced, outcome, attempt, version,
    claimed_version, token, last_token, lease_until, claimed_at, last_claimed_at, fire_at, finished_at, purge_at,
    last_exec_at, forget_at, instance, claim_id, at = struct.unpack(CLAIMED_HEAD, record)
  return {
    status = STATUS_NAME[status],
    scheduled_at = scheduled_at ~= NONE and scheduled_at or nil,
    updated_at = updated_at ~= NONE and updated_at or nil,
    first_activity_at = first_activity_at ~= NONE and first_activity_at or nil,
    last_activity_at = last_activity_at ~= NONE and last_activity_at or nil,
    coalesced = coalesced,
    last_outcome = OUTCOME_NAME[outcome],
    attempt = attempt,
    version = version,
    claimed_version = claimed_version,
    token = token,
    last_token = last_token,
    lease_until = lease_until ~= NONE and lease_until or nil,
    claimed_at = claimed_at ~= NONE and claimed_at or nil,
    last_claimed_at = last_claimed_at ~= NONE and last_claimed_at or nil,
    fire_at = fire_at ~= NONE and fire_at or nil,
    finished_at = finished_at ~= NONE and finished_at or nil,
    purge_at = purge_at ~= NONE and purge_at or nil,
    last_exec_at = last_exec_at ~= NONE and last_exec_at or nil,
    forget_at = forget_at ~= NONE and forget_at or nil,
    instance = instance,
    claim_id = claim_id,
  }, at
end

-- Whether a task has more than one that was never claimed; `version` counts its lives.
local function was_claimed(task)
  return task.last_claimed_at or task.version or task.token or task.last_token or task.attempt or task.finished_at
    or task.last_exec_at or task.forget_at or task.purge_at or task.fire_at or task.claimed_at or task.lease_until
    or task.last_outcome or task.claimed_version or task.instance or task.claim_id
end

local function head_of(task)
  local status, scheduled_at, updated_at = STATUS_CODE[task.status] or 0, task.scheduled_at or NONE, task.updated_at or NONE
  local first_activity_at, last_activity_at = task.first_activity_at or NONE, task.last_activity_at or NONE
  local coalesced = task.coalesced or 0
  if not was_claimed(task) then
    return struct.pack(
      WAITING_HEAD, WAITING, status, scheduled_at, updated_at, first_activity_at, last_activity_at, coalesced)
  end
  local instance, claim_id = task.instance or '', task.claim_id or ''
  return struct.pack(
    CLAIMED_HEAD, CLAIMED, status, scheduled_at, updated_at, first_activity_at, last_activity_at, coalesced,
    OUTCOME_CODE[task.last_outcome] or 0, task.attempt or 0, task.version or 1, task.claimed_version or 0,
    task.token or 0, task.last_token or 0, task.lease_until or NONE, task.claimed_at or NONE,
    task.last_claimed_at or NONE, task.fire_at or NONE, task.finished_at or NONE, task.purge_at or NONE,
    task.last_exec_at or NONE, task.forget_at or NONE, #instance, instance, #claim_id, claim_id)
end

local records, changed = {}, {}

local function fetch(keys)
  for first = 1, #keys, MOST do
    local places, last = {}, math.min(first + MOST - 1, #keys)
    for at = first, last do places[at - first + 1] = task_key .. keys[at] end
    local found = call('MGET', unpack(places))
    for at = first, last do records[keys[at]] = found[at - first + 1] end
  end
end

-- As it is after what this script has done so far; false if nothing is known of the key.
local function record_of(key)
  local record = records[key]
  if record == nil then return call('GET', task_key .. key) end
  return record
end

local function put(key, record)
  records[key] = record
  changed[#changed + 1] = key
end

local function write_records()
  local number = #changed
  for first = 1, number, MOST do
    local list, size = {}, 0
    for at = first, math.min(first + MOST - 1, number) do
      list[size + 1], list[size + 2] = task_key .. changed[at], records[changed[at]]
      size = size + 2
    end
    call('MSET', unpack(list, 1, size))
  end
  changed = {}
end

-- Everything that is to be written by now. Records come first: a server that has no memory left refuses them, and would
-- let everything pass that follows a first write.
local function write_changes()
  write_records()
  write_indexes()
  write_counts()
end

-- The task and the fixed part of its record; an empty table if nothing is known of the key.
local function read(key)
  local record = record_of(key)
  if not record then return {}, NOTHING_FIXED end
  local task, at = (string.byte(record) == WAITING and read_waiting or read_claimed)(record)
  return task, read_rest(record, at, task)
end

-- The record as it will be written: the reply may hand it out.
local function write(key, task, fixed)
  local record = head_of(task) .. rest_of(task, fixed)
  put(key, record)
  return record
end

-- A row of the run log. Whom the run was for is in the fixed part of its task's record, which is the row's as well.
local function packed_row(status, started_at, fire_at, token, attempt, duration_ms, instance, key, fixed, others)
  local head = struct.pack(
    ROW_HEAD, RUN_STATUS_CODE[status], started_at, fire_at, token, attempt, duration_ms, #instance, instance, #key, key)
  return next(others) and head .. fixed .. cmsgpack.pack(others) or head .. fixed
end
