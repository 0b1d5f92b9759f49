--- include record
-- A part of the run log, newest first: so many rows are looked at, and those that match are handed out.
--
-- input    stop      the newest id, as XREVRANGE takes it; count   how many rows to look at; most   how many are enough
--          key, user_id, status, failure   what is asked, those that are asked; asked   how many that are
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

local rows = call('XREVRANGE', named('runs'), input.stop, '-', 'COUNT', input.count)
local found, looked_at = {}, 0
for at, row in ipairs(rows) do
  looked_at = at
  local said, wanted = said_by(row[2]), 0
  for _, name in ipairs({ 'key', 'user_id', 'status', 'failure' }) do
    if input[name] and said[name] == input[name] then wanted = wanted + 1 end
  end
  if wanted == input.asked then
    found[#found + 1], found[#found + 2] = row[1], row[2]
    if #found >= 2 * input.most then break end
  end
end
return { looked_at, rows[looked_at] and rows[looked_at][1] or false, found }
