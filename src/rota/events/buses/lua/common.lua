-- What several scripts need; every script begins with it.

local function groups_of(stream)
  local groups = {}
  if redis.call('EXISTS', stream) == 1 then
    for at, row in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
      groups[at] = {}
      for field = 1, #row, 2 do
        groups[at][row[field]] = row[field + 1]
      end
    end
  end
  return groups
end

local function group_of(stream, name)
  for _, group in ipairs(groups_of(stream)) do
    if group.name == name then
      return group
    end
  end
end

-- An id has two numbers, each of them too large for Lua. As text, without leading zeros, the longer one is greater.
local function is_number_less(one, other)
  if #one ~= #other then
    return #one < #other
  end
  return one < other
end

local function is_id_less(one, other)
  local ms, number = string.match(one, '^(%d+)-(%d+)$')
  local other_ms, other_number = string.match(other, '^(%d+)-(%d+)$')
  if ms ~= other_ms then
    return is_number_less(ms, other_ms)
  end
  return is_number_less(number, other_number)
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
