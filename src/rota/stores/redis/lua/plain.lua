-- What most runs need, without a table for each task: the head of a record is taken apart and put together again, and
-- what follows it is passed through as it is.
--
-- A task is plain if nothing that follows the head has a say in its claim or in its success. Every other one is left
-- to the table of record.lua.

local HAS_NO_SAY = { payload = true, priority = true, errors = true, crashes = true }
local LENGTH = '>H'
local PENDING, CLAIMS_TO = STATUS_CODE[STATUS.pending], STATUS_CODE[TABLE.claim[STATUS.pending]]
local RUNNING, COMPLETED = STATUS_CODE[STATUS.running], STATUS_CODE[STATUS.completed]
local COMPLETE, SUCCESS = OUTCOME_CODE[TRANSITION.complete], RUN_STATUS_CODE[RUN_STATUS_OF[TRANSITION.complete]]

local function fixed_at(record)
  if string.byte(record) == WAITING then return WAITING_SIZE + 1 end
  local at = CLAIMED_SIZE + 1
  at = at + 2 + struct.unpack(LENGTH, record, at)
  return at + 2 + struct.unpack(LENGTH, record, at)
end

-- The fields that follow the fixed part, or nil if there are none.
local function others_of(record)
  local at = fixed_at(record)
  local stop = at + 1 + struct.unpack(LENGTH, record, at)
  if stop < #record then return cmsgpack.unpack(string.sub(record, stop + 1)) end
end

local function is_plain(others)
  for name in pairs(others or {}) do
    if not HAS_NO_SAY[name] then return false end
  end
  return true
end

-- What a claim must know of a plain task, and what it passes on.
local function read_pending(record)
  if string.byte(record) ~= WAITING then
    local _, status, scheduled_at, _, first_activity_at, last_activity_at, coalesced, outcome, attempt, version, _, _,
      last_token, _, _, _, _, finished_at, purge_at, last_exec_at, forget_at, _, _, at = struct.unpack(CLAIMED_HEAD, record)
    return status, scheduled_at, first_activity_at, last_activity_at, coalesced, outcome, attempt, version, last_token,
      finished_at, purge_at, last_exec_at, forget_at, at
  end
  local _, status, scheduled_at, _, first_activity_at, last_activity_at, coalesced, at = struct.unpack(WAITING_HEAD, record)
  return status, scheduled_at, first_activity_at, last_activity_at, coalesced, 0, 0, 1, 0, NONE, NONE, NONE, NONE, at
end

-- pending -> running: the record of a plain task once it is claimed, and when it was due; nothing if it is not due.
local function claimed(record, lease)
  local status, scheduled_at, first_activity_at, last_activity_at, coalesced, outcome, attempt, version, last_token,
    finished_at, purge_at, last_exec_at, forget_at, at = read_pending(record)
  if status ~= PENDING or scheduled_at > now then return nil end
  return struct.pack(
    CLAIMED_HEAD, CLAIMED, CLAIMS_TO, scheduled_at, now, first_activity_at, last_activity_at, coalesced, outcome,
    attempt + 1, version, version, lease.next_token(last_token), last_token, lease.until_at, now, now, scheduled_at,
    finished_at, purge_at, last_exec_at, forget_at, #lease.instance, lease.instance, #lease.claim_id, lease.claim_id
  ) .. string.sub(record, at)
end

-- running -> completed: the record of a plain task that has succeeded, its run's row and its fixed part; nothing if it
-- does not run under this token.
local function completed(key, record, token, duration_ms, purge_at, forget_at)
  local _, status, scheduled_at, _, first_activity_at, last_activity_at, coalesced, _, attempt, version, claimed_version,
    held, _, _, claimed_at, last_claimed_at, fire_at, _, _, _, known_until, instance, _, at = struct.unpack(CLAIMED_HEAD, record)
  if status ~= RUNNING or held ~= token then return nil end
  local fixed = string.sub(record, at, at + 1 + struct.unpack(LENGTH, record, at))
  return struct.pack(
    CLAIMED_HEAD, CLAIMED, COMPLETED, scheduled_at, now, first_activity_at, last_activity_at, coalesced, COMPLETE,
    attempt, version, claimed_version, 0, token, NONE, claimed_at, last_claimed_at, fire_at, now, purge_at, now,
    math.max(known_until, forget_at), 0, '', 0, ''
  ) .. string.sub(record, at),
    struct.pack(ROW_HEAD, SUCCESS, claimed_at, fire_at, token, attempt, duration_ms, #instance, instance, #key, key) .. fixed,
    fixed
end
