--- include record
-- Which of some tasks match a question: a bounded walk along an index that has the order of keys, or a list of keys.
--
-- input    keys      list of keys to look at; or, without it,
--          index     the kind of the index, suffix   what it is about (or nothing)
--          start     where to begin, as ZRANGEBYLEX takes it; count   how many to look at
--          most      how many matches are enough
--          status, without, user_id, owner, search, schedules, failure   what is asked, those that are asked
--          global    the key that is no schedule
-- returns  { how many were looked at, the last of them or false, list of the keys that match }

local function has(text, part) return text and string.find(text, part, 1, true) ~= nil end

local function matches(key)
  local task, fixed = read(key)
  local status, owner, trigger, user_id = task.status, task.owner, task.trigger, nil
  if input.user_id or input.search then user_id = unfixed(fixed).user_id end
  if not status then return false end
  if input.status and status ~= input.status then return false end
  if input.without and status == input.without then return false end
  if input.user_id and user_id ~= input.user_id then return false end
  if input.failure and task.failure ~= input.failure then return false end
  if input.owner and owner ~= input.owner then return false end
  if input.schedules and (not trigger or key == input.global) then return false end
  return not input.search or has(key, input.search) or has(user_id, input.search)
end

local keys = input.keys
if not keys then
  keys = call('ZRANGEBYLEX', named(input.index, input.suffix), input.start, '+', 'LIMIT', 0, input.count)
end
local matching, looked_at = {}, 0
for at, key in ipairs(keys) do
  looked_at = at
  if matches(key) then
    matching[#matching + 1] = key
    if #matching >= input.most then break end
  end
end
return { looked_at, keys[looked_at] or false, matching }
