--- include record
-- running -> running, if the token is current; tells the runner when somebody wants it to stop.
--
-- input    lease_ms, items   list of { key, token, progress }
-- returns  per item { answer, record or '', payload beside it or false }

local until_at = now + input.lease_ms
local answers = {}
for at, item in ipairs(input.items) do
  local key = item.key
  local task, fixed = read(key)
  local answer, record = ANSWER.stale, nil
  if task.status and TABLE.renew[task.status] and task.token == item.token then
    answer = task.want == WANT.cancel and ANSWER.cancel or ANSWER.ok
    -- A lease taken by hand is as long as the type's timeout: renewing must never shorten it.
    task.lease_until = math.max(until_at, task.lease_until)
    task.renewed, task.extended, task.progress = true, nil, item.progress or task.progress
    record = write(key, task, fixed)
    into(named('running'), task.lease_until, key)
  end
  answers[at] = { answer, record or record_of(key) or '', payload_of(key, task) }
end
write_changes()
return answers
