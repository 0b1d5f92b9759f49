--- include record
--- include plain
--- include settle_rules
--- include success
--- include details
-- running -> wherever leaving leads (complete, discard, retry, fail, snooze, release), if the token is current.
--
-- input    brief   whether a code and the new status are answer enough
--          items   list of lists: key, token, transition, duration_ms, chance, reason, error, result, after_ms,
--                  failure, details
-- returns  { woke, per item { answer, status or '' } if brief, else { answer, record, payload beside it or false } };
--          the answer RARE means that nothing was written: it is not for this script

local rare = {}

local function settled_by(item)
  return {
    transition = item[3], duration_ms = item[4], chance = item[5], reason = item[6], error = item[7], result = item[8],
    after_ms = item[9], failure = item[10],
  }
end

local function settle(key, token, item)
  local task, fixed = read(key)
  local transition = item[3]
  if task.trigger or rare[key] or (transition == TRANSITION.snooze and (task.snoozes or 0) >= MAX_SNOOZES) then
    rare[key] = true
    return RARE
  end
  local target = task.status and TABLE[transition][task.status]
  if target == SPECIAL.leave and task.token == token then
    local record = leave_running(key, task, fixed, settled_by(item))
    if item[11] then keep_details(key, token, item[11]) end
    return ANSWER.ok, task, record
  end
  local is_same = task.last_token == token and task.last_outcome == transition
  return is_same and ANSWER.already or ANSWER.stale, task
end

local function reply_to(item)
  local key, token = item[1], item[2]
  if input.brief and succeeds(key, token, item) then return SUCCEEDED end
  local answer, task, record = settle(key, token, item)
  if answer == RARE then return { RARE } end
  if input.brief then return { answer, task.status or '' } end
  return { answer, record or record_of(key) or '', payload_of(key, task) }
end

if not read_type() then return { 0 } end
local answers, keys = {}, {}
for at, item in ipairs(input.items) do keys[at] = item[1] end
fetch(keys)
open_successes()
for at, item in ipairs(input.items) do answers[at] = reply_to(item) end
count_successes()
unpark()
write_changes()
return { wake(), answers }
