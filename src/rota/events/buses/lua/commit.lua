-- Acknowledge entries of streams that are ours.
--
-- KEYS     for each stream: the stream, its lease
-- ARGV     the reader's token, group, then for each stream how many ids there are, and the ids
-- returns  for each stream: 1 if it was ours, 0 if nothing was changed

local token, group = ARGV[1], ARGV[2]
local GROUP = 1000 -- as many arguments as every Lua takes

local answers = {}
local at = 3
for key = 1, #KEYS, 2 do
  local first, last = at + 1, at + tonumber(ARGV[at])
  at = last + 1
  answers[#answers + 1] = 0
  if redis.call('GET', KEYS[key + 1]) == token then
    answers[#answers] = 1
    for begin = first, last, GROUP do
      redis.call('XACK', KEYS[key], group, unpack(ARGV, begin, math.min(begin + GROUP - 1, last)))
    end
  end
end
return answers
