--- include record
-- What decides when one task runs, seen at one moment. Nothing is written.
--
-- input    key, most   how far those before it are counted
-- returns  { now, record or '', payload beside it or false, how many due tasks rank before it,
--            how many of the type run, how many run under its serial, what the type's bucket holds or '',
--            the same of the bucket of its starts, what has arrived of its `after` },
--          or nothing if there is no such type

if not read_type() then return false end
local key = input.key
local task = read(key)
local aging = settings.aging_ms

local function text(number) return string.format('%.0f', number) end

-- How many of a lane rank before the task; of those of its own rank the earlier due ones do, then those by key.
local function before_in(priority)
  local lane = priority == NORMAL_LANE and named('queue') or named('queue', text(priority))
  local earlier = (num(task.priority or NORMAL_LANE) - priority) * aging
  local at = num(task.scheduled_at) - earlier
  if at > now then return call('ZCOUNT', lane, '-inf', text(now)) end
  if earlier > 0 then return call('ZCOUNT', lane, '-inf', text(at)) end
  local found = call('ZCOUNT', lane, '-inf', '(' .. text(at))
  if earlier < 0 then return found end
  local own = call('ZRANK', lane, key)
  if own then return own end
  for _, other in ipairs(call('ZRANGEBYSCORE', lane, text(at), text(at), 'LIMIT', 0, input.most)) do
    if is_before(other, key) then found = found + 1 end
  end
  return found
end

local function parked_before()
  local parked, at = named('parked', task.serial), num(task.scheduled_at)
  local rank = text(at - num(task.priority or NORMAL_LANE) * aging)
  local found = call('ZCOUNT', parked, '-inf', '(' .. rank)
  for _, other in ipairs(call('ZRANGEBYSCORE', parked, rank, rank, 'LIMIT', 0, input.most)) do
    local due = num(read(other).scheduled_at)
    if due < at or (due == at and is_before(other, key)) then found = found + 1 end
  end
  return found
end

local ahead = 0
if task.status == STATUS.pending then
  ahead = before_in(NORMAL_LANE)
  for _, priority in ipairs(call('SMEMBERS', named('lanes'))) do ahead = ahead + before_in(tonumber(priority)) end
  if task.serial then ahead = ahead + parked_before() end
end

local function tokens_in(suffix, limit)
  if not limit then return '' end
  return string.format('%.17g', (refill(named('bucket', suffix), limit.rate, limit.burst)))
end

local arrived = {}
for _, name in ipairs(call('HKEYS', named('need', key))) do
  if not was_seen(name) then arrived[#arrived + 1] = name end
end
local held = task.serial and call('SCARD', named('holders', task.serial)) or 0
return {
  now, call('GET', task_key .. key) or '', payload_of(key, task), math.min(ahead, input.most), num(call('HGET', named('counts'), STATUS.running)),
  held, tokens_in('own', settings.rate_limit), tokens_in('starts', settings.start_limit), arrived,
}
