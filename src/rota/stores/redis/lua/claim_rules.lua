-- Claiming what is due, one task after the other: taken, parked, or put right in the indexes. Of the input it reads
-- instance, claim_id and lease_ms.

local lease_until, lease_text, lease = nil, nil, { next_token = next_token }
local holders, running = {}, named('running')
local taken, number_taken = {}, 0

local function open_lease()
  lease_until = now + (input.lease_ms or settings.timeout_ms)
  lease_text = string.format('%.0f', lease_until)
  lease.until_at, lease.instance, lease.claim_id = lease_until, input.instance, input.claim_id
end

local function is_due(task) return task.status == STATUS.pending and not task.parked and task.scheduled_at <= now end

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

local function hand_out(key, record, payload)
  if settings.after[1] then clear_need(key) end
  local at = 3 * number_taken
  taken[at + 1], taken[at + 2], taken[at + 3] = key, record, payload
  number_taken = number_taken + 1
end

local function take(key, task, fixed)
  leave(key, task)
  task.status = TABLE.claim[task.status]
  task.dirty, task.parked, task.progress, task.renewed, task.extended = nil, nil, nil, nil, nil
  task.token = next_token(task.last_token or 0)
  task.lease_until, task.instance, task.claim_id = lease_until, input.instance, input.claim_id
  task.claimed_at, task.updated_at, task.last_claimed_at = now, now, now
  task.claimed_version, task.fire_at, task.attempt = task.version or 1, task.scheduled_at, (task.attempt or 0) + 1
  enter(key, task)
  if task.serial then holders[task.serial] = holders[task.serial] + 1 end
  hand_out(key, write(key, task, fixed), payload_of(key, task))
end

-- The same for a plain task, of which the new record is known already.
local function take_plain(key, lane, record, others)
  put(key, record)
  out_of(lane, key)
  into(running, lease_text, key)
  hand_out(key, record, others and payload_of(key, others) or false)
end

-- Take one that an index says is due, unless it cannot start; false if the rate allows no more.
local function try(each)
  local key = each.key
  local plain = each.record and is_plain(each.others) and claimed(each.record, lease)
  if plain then
    if not grant(1) then return false end
    take_plain(key, each.lane, plain, each.others)
    return true
  end
  local task, fixed = read(key)
  if not is_due(task) then
    -- The record is the truth: what an index says wrongly is put right.
    out_of(each.lane, key)
    if task.status then enter(key, task) end
  elseif is_busy(task) then
    park(key, task, fixed)
  elseif grant(task.cost or 1) then
    take(key, task, fixed)
  else
    return false
  end
  return true
end

-- Read before anything is written. False if one of them is not for this script, which then leaves all of them alone.
local function read_all(found, number)
  local keys = {}
  for at = 1, number do keys[at] = found[at].key end
  fetch(keys)
  for at = 1, number do
    local each = found[at]
    each.record = record_of(each.key)
    each.others = each.record and others_of(each.record)
    if each.others and (each.others.trigger or each.others.expires_at) then return false end
  end
  return true
end
