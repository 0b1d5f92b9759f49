-- Remove old entries that every group has acknowledged.
--
-- KEYS[1]  the stream
-- ARGV     how many milliseconds an entry is kept at least
-- returns  how many were removed

local stream = KEYS[1]

local function first_needed(group)
  local open = redis.call('XPENDING', stream, group.name)
  if open[1] > 0 then
    return open[2]
  end
  local ms, number = string.match(group['last-delivered-id'], '^(%d+)-(%d+)$')
  return ms .. '-' .. (#number < 15 and string.format('%.0f', number + 1) or number)
end

local keep_from = string.format('%.0f-0', math.max(0, now() - ARGV[1]))
for _, group in ipairs(groups_of(stream)) do
  local needed = first_needed(group)
  if is_id_less(needed, keep_from) then
    keep_from = needed
  end
end
return redis.call('XTRIM', stream, 'MINID', '=', keep_from)
