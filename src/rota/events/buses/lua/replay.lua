-- Have a group read again all that comes after an id. What it has not read yet it reads anyway.
--
-- KEYS     for each stream: the stream, its lease
-- ARGV     group, id
-- returns  how many streams were set back
--
-- Whoever reads now loses its lease, and so begins anew: the next owner finds the entries in their order.

local group, id = ARGV[1], ARGV[2]
local PAGE = 1000

local function close_open_ones(stream)
  -- They come again with all the others; as open ones they would come before those.
  repeat
    local open = redis.call('XPENDING', stream, group, '(' .. id, '+', PAGE)
    for _, entry in ipairs(open) do
      redis.call('XACK', stream, group, entry[1])
    end
  until #open < PAGE
end

local count = 0
for at = 1, #KEYS, 2 do
  local stream, lease = KEYS[at], KEYS[at + 1]
  local found = group_of(stream, group)
  if found and is_id_less(id, found['last-delivered-id']) then
    close_open_ones(stream)
    redis.call('XGROUP', 'SETID', stream, group, id)
    redis.call('DEL', lease)
    count = count + 1
  end
end
return count
