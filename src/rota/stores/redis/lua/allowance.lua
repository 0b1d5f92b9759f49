-- What the type's own token buckets allow: what a task costs, and one start. Spelled out for each of the two: most types
-- have none, and pay for none.

local rate, starts
local bucket, tokens, filled_at
local start_bucket, start_tokens, starts_filled_at
local wait_ms

local function open_buckets()
  rate, starts = settings.rate_limit, settings.start_limit
  if rate then
    bucket = named('bucket', 'own')
    tokens, filled_at = refill(bucket, rate.rate, rate.burst)
  end
  if starts then
    start_bucket = named('bucket', 'starts')
    start_tokens, starts_filled_at = refill(start_bucket, starts.rate, starts.burst)
  end
end

-- Paid for in both buckets, or in none; then `wait_ms` says how long it takes until it can be.
local function grant(cost)
  if not rate and not starts then return true end
  -- A cost above the capacity would never be met: it takes the whole bucket instead.
  if rate then cost = math.min(cost, rate.burst) end
  if (rate and cost > tokens + 1e-9) or (starts and 1 > start_tokens + 1e-9) then
    wait_ms = rate and wait_for(tokens, cost, rate.rate) or 0
    if starts then wait_ms = math.max(wait_ms, wait_for(start_tokens, 1, starts.rate)) end
    return false
  end
  if rate then tokens = math.max(0, tokens - cost) end
  if starts then start_tokens = math.max(0, start_tokens - 1) end
  return true
end

local function write_buckets()
  if rate then put_bucket(bucket, tokens, filled_at, rate.rate, rate.burst) end
  if starts then put_bucket(start_bucket, start_tokens, starts_filled_at, starts.rate, starts.burst) end
end
