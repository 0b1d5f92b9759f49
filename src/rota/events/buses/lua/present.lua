-- Say that a reader is there, or with a lease of 0 that it goes; who is there besides.
--
-- KEYS[1]  the readers of one consumer and topic, by when they count as gone
-- ARGV     the reader's token, lease in milliseconds
-- returns  the tokens of all that are there, in an order that everybody sees alike

local token, lease_ms = ARGV[1], tonumber(ARGV[2])
if lease_ms == 0 then
  redis.call('ZREM', KEYS[1], token)
  return {}
end
local at = now()
redis.call('ZADD', KEYS[1], at + lease_ms, token)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', at)
redis.call('PEXPIRE', KEYS[1], math.max(lease_ms, redis.call('PTTL', KEYS[1])))
local there = redis.call('ZRANGE', KEYS[1], 0, -1)
table.sort(there)
return there
