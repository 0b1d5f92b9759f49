-- Take from a token bucket, all or nothing; a negative amount gives back.
--
-- KEYS[1]  the bucket
-- input    amount, rate (tokens a second), burst
-- returns  { granted, milliseconds to wait for the rest }

local tokens, at = refill(KEYS[1], input.rate, input.burst)
local granted, wait_ms = input.amount, 0
if input.amount > tokens + 1e-9 then
  granted, wait_ms = 0, wait_for(tokens, input.amount, input.rate)
else
  tokens = math.min(input.burst, math.max(0, tokens - input.amount))
end
put_bucket(KEYS[1], tokens, at, input.rate, input.burst)
return { granted, wait_ms }
