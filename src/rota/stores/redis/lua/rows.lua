--- include record
-- A part of the run log, newest first: so many rows are looked at, and those that match are handed out.
--
-- input    stop      the newest id, as XREVRANGE takes it; count   how many rows to look at; most   how many are enough
--          key, user_id, status, failure   what is asked, those that are asked; asked   how many that are
--          since, until_   when it must have ended; slack   by how much a row may be older than one before it
-- returns  { how many were looked at, the id of the last of them or false, flat list of id, fields }

local RUN_STATUS_NAME = names_of(RUN_STATUS_CODE)

-- What a row says: packed in one field, or in a field each, as the first layout had it.
local function said_by(fields)
  if fields[1] ~= ROW then return as_table(fields) end
  local status, _, _, _, _, _, _, key, at = struct.unpack(ROW_HEAD, fields[2])
  local said = {}
  local fixed = read_rest(fields[2], at, said)
  if input.user_id then said.user_id = said.user_id or unfixed(fixed).user_id end
  said.status, said.key = RUN_STATUS_NAME[status], key
  return said
end

local function ended_at(fields)
  if fields[1] ~= ROW then
    local said = as_table(fields)
    return (tonumber(said.started_at) or 0) + (tonumber(said.duration_ms) or 0)
  end
  local _, started_at, _, _, _, duration_ms = struct.unpack(ROW_HEAD, fields[2])
  return started_at + duration_ms
end

local function millis_of(id) return tonumber(string.match(id, '^%d+')) end

-- From which part of the log on all runs ended at an instant or later. Ids go up with the time, so halving finds it.
local function first_since(at)
  local first = call('XRANGE', named('runs'), '-', '+', 'COUNT', 1)[1]
  if not first then return 0 end
  local low, high = millis_of(first[1]), millis_of(call('XREVRANGE', named('runs'), '+', '-', 'COUNT', 1)[1][1]) + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    local row = call('XRANGE', named('runs'), string.format('%.0f', middle), '+', 'COUNT', 1)[1]
    if not row or ended_at(row[2]) >= at then high = middle else low = millis_of(row[1]) + 1 end
  end
  return high
end

-- The part of the log in which a time range lies, and a bit more on both sides.
local start, stop = '-', input.stop
if input.since then start = string.format('%.0f', math.max(0, first_since(input.since - input.slack) - 1)) end
if input.until_ then
  local before = math.max(0, first_since(input.until_ + input.slack) - 1)
  if stop == '+' or millis_of(string.match(stop, '%d+')) > before then stop = string.format('%.0f', before) end
end

local rows = call('XREVRANGE', named('runs'), stop, start, 'COUNT', input.count)
local found, looked_at = {}, 0
for place, row in ipairs(rows) do
  looked_at = place
  local said, wanted = said_by(row[2]), 0
  local at = (input.since or input.until_) and ended_at(row[2])
  local is_within = (not input.since or at >= input.since) and (not input.until_ or at < input.until_)
  for _, name in ipairs({ 'key', 'user_id', 'status', 'failure' }) do
    if input[name] and said[name] == input[name] then wanted = wanted + 1 end
  end
  if is_within and wanted == input.asked then
    found[#found + 1], found[#found + 2] = row[1], row[2]
    if #found >= 2 * input.most then break end
  end
end
return { looked_at, rows[looked_at] and rows[looked_at][1] or false, found }
