-- Take from a token bucket, all or nothing; a negative amount gives back.
--
-- KEYS[1]  the bucket
-- input    amount, rate (tokens a second), burst, owe   whether it is granted in any case, and what is over is owed
-- returns  { granted, milliseconds to wait for the rest, or until what is owed is paid off }

local tokens, at = refill(KEYS[1], input.rate, input.burst)
local granted, wait_ms = input.amount, 0
if input.owe or input.amount < 0 then
  -- Giving back only adds: what is owed stays owed.
  tokens = math.min(input.burst, tokens - input.amount)
  if input.owe then wait_ms = wait_for(tokens, 0, input.rate) end
elseif input.amount > tokens + 1e-9 then
  granted, wait_ms = 0, wait_for(tokens, input.amount, input.rate)
else
  tokens = math.max(0, tokens - input.amount)
end
put_bucket(KEYS[1], tokens, at, input.rate, input.burst)
return { granted, wait_ms }
