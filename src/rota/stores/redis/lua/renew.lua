-- running -> running, if the token is current; tells the runner when somebody wants it to stop.
--
-- input    lease_ms, items   list of { key, token, progress }
-- returns  per item { answer, packed fields, payload beside the hash or false }

local until_at = now + input.lease_ms
local answers = {}
for at, item in ipairs(input.items) do
  local key = item.key
  local task = as_table(call('HGETALL', named('task', key)))
  local answer = ANSWER.stale
  if task.status and TABLE.renew[task.status] and num(task.token) == item.token then
    answer = task.want == WANT.cancel and ANSWER.cancel or ANSWER.ok
    -- A lease taken by hand is as long as the type's timeout: renewing must never shorten it.
    put(task, 'lease_until', math.max(until_at, num(task.lease_until)))
    put(task, 'renewed', '1')
    put(task, 'extended', nil)
    put(task, 'progress', item.progress or task.progress)
    save(key)
    into(named('running'), task.lease_until, key)
  end
  answers[at] = { answer, packed(task), payload_of(key, task) }
end
write_indexes()
return answers
