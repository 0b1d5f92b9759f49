-- All that is known of some identities of a type, and a digest of it by which a later commit sees whether it changed.
--
-- input    list of keys
-- returns  per key: { digest, fields as a flat list, the payload beside the hash or false }

local found = {}
for at, key in ipairs(input) do
  local flat = call('HGETALL', named('task', key))
  local payload = false
  for place = 1, #flat, 2 do
    if flat[place] == 'payload' and flat[place + 1] == '' then payload = call('GET', named('payload', key)) end
  end
  found[at] = { redis.sha1hex(table.concat(flat, '\0')), flat, payload }
end
return found
