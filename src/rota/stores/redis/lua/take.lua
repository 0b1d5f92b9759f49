-- Take from a token bucket, all or nothing; a negative amount gives back.
--
-- input    bucket   its key
--          amount, rate (tokens a second), burst
-- returns  { granted, milliseconds to wait for the rest }
--
-- A clock that steps back gives nothing and takes nothing. The bucket outlives the time it takes to fill it.

local found = call('HMGET', input.bucket, 'tokens', 'at')
local tokens, at = tonumber(found[1]), tonumber(found[2])
if tokens == nil or at == nil then
  tokens, at = input.burst, now
else
  local later = math.max(at, now)
  tokens = math.min(input.burst, tokens + (later - at) * input.rate / 1000)
  at = later
end
local granted, wait_ms = input.amount, 0
if input.amount > tokens + 1e-9 then
  granted, wait_ms = 0, math.max(1, math.ceil((input.amount - tokens) * 1000 / input.rate))
else
  tokens = math.min(input.burst, math.max(0, tokens - input.amount))
end
call('HSET', input.bucket, 'tokens', string.format('%.17g', tokens), 'at', string.format('%.0f', at))
call('PEXPIRE', input.bucket, math.max(86400000, math.ceil(2000 * input.burst / input.rate)))
return { granted, wait_ms }
