-- Tokens that no loss of data brings back: the numbers of core/token.py, which says why.

local last_token

-- The last token that was handed out, or the number that stands for it at this time.
local function read_last_token(claim_id)
  local floor = math.min(math.max(0, now - TOKEN_EPOCH), TOKEN_LONGEST) * TOKEN_ROOM
  last_token = num(call('GET', named('seq')))
  if last_token < floor then last_token = floor + tonumber(string.sub(redis.sha1hex(claim_id), 1, 3), 16) end
end

-- The next one, higher than the last one that the task has had.
local function next_token(had)
  last_token = math.max(last_token, had) + 1
  return last_token
end

local function write_last_token() call('SET', named('seq'), string.format('%.0f', last_token)) end
