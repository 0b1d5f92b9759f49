-- What a run leaves, by its token; of an identity the last runs, of a type those identities that left something last.

local DETAILED_KEYS = 10000

local function drop_details(key)
  call('DEL', named('details', key))
  call('ZREM', named('detailed'), key)
end

local function keep_details(key, token, details)
  local kept, detailed = named('details', key), named('detailed')
  call('HSET', kept, string.format('%.0f', token), details)
  if call('HLEN', kept) > DETAILED_RUNS then
    local tokens = call('HKEYS', kept)
    table.sort(tokens, function(one, other) return tonumber(one) < tonumber(other) end)
    call('HDEL', kept, unpack(tokens, 1, #tokens - DETAILED_RUNS))
  end
  call('ZADD', detailed, now, key)
  local too_many = call('ZCARD', detailed) - DETAILED_KEYS
  if too_many > 0 then
    for _, oldest in ipairs(call('ZRANGE', detailed, 0, too_many - 1)) do drop_details(oldest) end
  end
end
