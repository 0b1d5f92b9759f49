--- include record
--- include details
-- What running tasks have left so far; only the holder of the lease may say it.
--
-- input    list of { key, token, details }
-- returns  { 0, per item { answer } }

local keys, answers = {}, {}
for at, item in ipairs(input) do keys[at] = item[1] end
fetch(keys)
for at, item in ipairs(input) do
  local key, token, details = unpack(item)
  local task = read(key)
  local is_held = task.status == STATUS.running and task.token == token
  if is_held then keep_details(key, token, details) end
  answers[at] = { is_held and ANSWER.ok or ANSWER.stale }
end
return { 0, answers }
