-- Take streams that are nobody's, as many as are wanted.
--
-- KEYS     for each stream: the stream, its lease
-- ARGV     the reader's token, lease in milliseconds, group, how many are wanted
-- returns  for each stream: the last id that was handed to the group, or '' if the stream is not ours

local token, lease_ms, group, wanted = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local function can_be_taken(lease)
  local owner = redis.call('GET', lease)
  return not owner or owner == token
end

local taken = {}
for at = 1, #KEYS, 2 do
  local stream, lease = KEYS[at], KEYS[at + 1]
  taken[#taken + 1] = ''
  if wanted > 0 and can_be_taken(lease) then
    if not group_of(stream, group) then
      redis.call('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
    end
    redis.call('SET', lease, token, 'PX', lease_ms)
    taken[#taken] = group_of(stream, group)['last-delivered-id']
    wanted = wanted - 1
  end
end
return taken
