--- include settle_rules
-- running -> wherever leaving leads (complete, discard, retry, fail, snooze, release), if the token is current.
--
-- input    list of { key, token, transition, duration_ms, reason, error, result, after_ms, chance }
-- returns  { woke, per item { answer, packed fields, payload beside the hash or false } };
--          the answer RARE means that nothing was written: it is not for this script

local rare = {}

local function settle(item)
  local key = item.key
  local task = as_table(call('HGETALL', named('task', key)))
  if task.trigger or rare[key] then
    rare[key] = true
    return { RARE }
  end
  local target = task.status and TABLE[item.transition][task.status]
  if target ~= SPECIAL.leave or num(task.token) ~= item.token then
    local is_same = num(task.last_token) == item.token and task.last_outcome == item.transition
    return { is_same and ANSWER.already or ANSWER.stale, packed(task), payload_of(key, task) }
  end
  if item.transition == TRANSITION.snooze and num(task.snoozes) >= MAX_SNOOZES then
    rare[key] = true
    return { RARE }
  end
  leave_running(key, task, item)
  return { ANSWER.ok, packed(task), payload_of(key, task) }
end

if not read_type() then return { 0 } end
local answers = {}
for at, item in ipairs(input) do answers[at] = settle(item) end
unpark()
write_indexes()
write_counts()
return { wake(), answers }
