-- Keep leases, or with a lease of 0 give them back.
--
-- KEYS     leases
-- ARGV     the reader's token, lease in milliseconds
-- returns  for each lease: 1 if it was ours, 0 if it is over or somebody else's

local token, lease_ms = ARGV[1], tonumber(ARGV[2])
local ours = {}
for at, lease in ipairs(KEYS) do
  ours[at] = 0
  if redis.call('GET', lease) == token then
    ours[at] = 1
    if lease_ms == 0 then
      redis.call('DEL', lease)
    else
      redis.call('PEXPIRE', lease, lease_ms)
    end
  end
end
return ours
