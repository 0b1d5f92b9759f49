-- The next entries of streams that are ours. Whoever has lost a lease takes nothing out of the order of the new owner.
--
-- KEYS     for each stream: the stream, its lease
-- ARGV     the reader's token, group, limit, then for each stream the id after which entries that were handed to the
--          group already are looked for first, or '>' if none are
-- returns  for each stream, until the limit is reached: its entries, or 0 if the stream is not ours

local token, group, left = ARGV[1], ARGV[2], tonumber(ARGV[3])
local OWNER = 'owner' -- one name for whoever owns the stream: what the last owner left open is the next one's by itself

local function page(stream, after)
  local found = redis.pcall('XREADGROUP', 'GROUP', group, OWNER, 'COUNT', left, 'STREAMS', stream, after)
  if not found then
    return {}
  end
  return found.err and found or found[1][2]
end

local function add(entries, stream, found)
  for _, entry in ipairs(found) do
    if entry[2] then
      entries[#entries + 1] = entry
      left = left - 1
    else
      redis.call('XACK', stream, group, entry[1]) -- it was removed while it was open
    end
  end
end

local function read(stream, after)
  local entries = {}
  while left > 0 do
    local asked = left
    local found = page(stream, after)
    if found.err then
      return found
    end
    add(entries, stream, found)
    if #found < asked then
      if after == '>' then
        break
      end
      after = '>'
    elseif after ~= '>' then
      after = found[#found][1]
    end
  end
  return entries
end

local answers = {}
for at = 1, #KEYS, 2 do
  if left <= 0 then
    break
  end
  local stream, lease = KEYS[at], KEYS[at + 1]
  local answer = 0
  if redis.call('GET', lease) == token then
    answer = read(stream, ARGV[3 + (at + 1) / 2])
    if answer.err then
      if not string.find(answer.err, 'NOGROUP', 1, true) then
        return redis.error_reply(answer.err)
      end
      -- The stream or its group was removed. It begins anew, and so does whoever reads it.
      redis.call('DEL', lease)
      answer = 0
    end
  end
  answers[#answers + 1] = answer
end
return answers
