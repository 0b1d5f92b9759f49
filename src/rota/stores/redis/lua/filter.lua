--- include record
-- Which of some tasks match a question: a bounded walk along an index that has the order of keys, or a list of keys.
--
-- input    keys      list of keys to look at; or, without it,
--          index     the kind of the index, suffix   what it is about (or nothing)
--          start     where to begin, as ZRANGEBYLEX takes it; count   how many to look at
--          most      how many matches are enough
--          status, without, user_id, owner, search, schedules, failure   what is asked, those that are asked
--          since, until_   when it must have changed last; value   the field whose value is told
--          global    the key that is no schedule
-- returns  { how many were looked at, the last of them or false, list of the keys that match, list of their values }

local function has(text, part) return text and string.find(text, part, 1, true) ~= nil end

-- One that has not changed since it was made says so by having no time of it.
local function changed_at(task, fixed) return task.updated_at or unfixed(fixed).created_at or 0 end

local function is_within(task, fixed)
  if not input.since and not input.until_ then return true end
  local at = changed_at(task, fixed)
  return (not input.since or at >= input.since) and (not input.until_ or at < input.until_)
end

local function value_of(task, fixed)
  if input.value == 'updated_at' then return changed_at(task, fixed) end
  return task[input.value] or 0
end

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
  if not is_within(task, fixed) then return false end
  if input.schedules and (not trigger or key == input.global) then return false end
  if input.search and not has(key, input.search) and not has(user_id, input.search) then return false end
  return true, value_of(task, fixed)
end

local keys = input.keys
if not keys then
  keys = call('ZRANGEBYLEX', named(input.index, input.suffix), input.start, '+', 'LIMIT', 0, input.count)
end
local matching, values, looked_at = {}, {}, 0
for at, key in ipairs(keys) do
  looked_at = at
  local is_match, value = matches(key)
  if is_match then
    matching[#matching + 1], values[#values + 1] = key, value
    if #matching >= input.most then break end
  end
end
return { looked_at, keys[looked_at] or false, matching, values }
