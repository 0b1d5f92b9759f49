--- include record
--- include settle_rules
-- running -> wherever leaving leads (complete, discard, retry, fail, snooze, release), if the token is current.
--
-- input    brief   whether a code and the new status are answer enough
--          items   list of { key, token, transition, duration_ms, reason, error, result, after_ms, chance }
-- returns  { woke, per item { answer, status or '' } if brief, else { answer, record, payload beside it or false } };
--          the answer RARE means that nothing was written: it is not for this script

local rare = {}

local function settle(item)
  local key = item.key
  local task, fixed = read(key)
  if task.trigger or rare[key] or (item.transition == TRANSITION.snooze and (task.snoozes or 0) >= MAX_SNOOZES) then
    rare[key] = true
    return RARE
  end
  local target = task.status and TABLE[item.transition][task.status]
  if target == SPECIAL.leave and task.token == item.token then return ANSWER.ok, task, leave_running(key, task, fixed, item) end
  local is_same = task.last_token == item.token and task.last_outcome == item.transition
  return is_same and ANSWER.already or ANSWER.stale, task
end

local function reply_to(item)
  local answer, task, record = settle(item)
  if answer == RARE then return { RARE } end
  if input.brief then return { answer, task.status or '' } end
  return { answer, record or call('GET', task_key .. item.key) or '', payload_of(item.key, task) }
end

if not read_type() then return { 0 } end
local answers = {}
for at, item in ipairs(input.items) do answers[at] = reply_to(item) end
unpark()
write_indexes()
write_counts()
return { wake(), answers }
