-- How many entries of streams a group has not acknowledged.
--
-- KEYS     streams
-- ARGV     group, how many entries are counted one by one at most
-- returns  for each stream: how many; if there are too many to be counted, its length

local group, most = ARGV[1], tonumber(ARGV[2])
local PAGE = 100

local function counted_after(stream, id)
  local count = 0
  while count < most do
    local found = redis.call('XRANGE', stream, '(' .. id, '+', 'COUNT', PAGE)
    count = count + #found
    if #found < PAGE then
      return count
    end
    id = found[#found][1]
  end
end

local function lag_of(stream)
  local length = redis.call('XLEN', stream)
  local found = group_of(stream, group)
  if not found then
    return length
  end
  -- Redis 7 counts what is unread, except after a replay or a removal; 6.2 never does.
  local unread = found.lag or counted_after(stream, found['last-delivered-id'])
  return unread and math.min(found.pending + unread, length) or length
end

local lags = {}
for at, stream in ipairs(KEYS) do
  lags[at] = lag_of(stream)
end
return lags
