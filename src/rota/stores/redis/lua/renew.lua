-- running -> running, if the token is current; tells the runner when somebody wants it to stop.
--
-- input    lease_ms, items   list of { key, token, progress }
-- returns  per item { answer, fields, payload beside the hash or false }

local until_at = now + input.lease_ms
local answers = {}
for at, item in ipairs(input.items) do
  local key = item.key
  local task = as_table(call('HGETALL', named('task', key)))
  local answer = 'stale'
  if task.status and TABLE.renew[task.status] and num(task.token) == item.token then
    answer = task.want == 'cancel' and 'cancel' or 'ok'
    -- A lease taken by hand is as long as the type's timeout: renewing must never shorten it.
    local after = copy(task)
    after.lease_until = math.max(until_at, num(task.lease_until))
    after.progress = item.progress or task.progress
    save(key, task, after)
    call('ZADD', named('running'), after.lease_until, key)
    task = after
  end
  answers[at] = { answer, as_list(task), payload_of(key, task) }
end
return answers
