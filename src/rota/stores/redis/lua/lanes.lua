-- The due tasks of a type over all of its lanes, and when the next one is due.

local lanes

local function open_lanes()
  lanes = { { key = named('queue'), priority = NORMAL_LANE } }
  for _, priority in ipairs(call('SMEMBERS', named('lanes'))) do
    lanes[#lanes + 1] = { key = named('queue', priority), priority = tonumber(priority) }
  end
end

-- The first due ones of each lane, as many as `reach` says less those to be passed over, in rank order.
local function first_due(reach, passed_over)
  local found = {}
  for _, lane in ipairs(lanes) do
    local due = call('ZRANGEBYSCORE', lane.key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, reach)
    for at = 1, #due, 2 do
      local key, due_at = due[at], tonumber(due[at + 1])
      if not passed_over[key] then
        local rank = due_at - lane.priority * settings.aging_ms
        found[#found + 1] = { key = key, lane = lane.key, rank = rank, due_at = due_at, priority = lane.priority }
      end
    end
  end
  if #lanes > 1 then
    table.sort(found, function(one, other)
      if one.rank ~= other.rank then return one.rank < other.rank end
      if one.due_at ~= other.due_at then return one.due_at < other.due_at end
      return is_before(one.key, other.key)
    end)
  end
  return found
end

local function next_due()
  local first
  for _, lane in ipairs(lanes) do
    local head = call('ZRANGEBYSCORE', lane.key, '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if head[2] and (first == nil or tonumber(head[2]) < first) then first = tonumber(head[2]) end
  end
  return first or ''
end
