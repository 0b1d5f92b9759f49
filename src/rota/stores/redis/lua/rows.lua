-- A part of the run log, newest first: so many rows are looked at, and those that match are handed out.
--
-- input    stop      the newest id, as XREVRANGE takes it; count   how many rows to look at; most   how many are enough
--          key, user_id, status   what is asked, those that are asked; asked   how many that are
-- returns  { how many were looked at, the id of the last of them or false, flat list of id, fields }

local rows = call('XREVRANGE', named('runs'), input.stop, '-', 'COUNT', input.count)
local found, looked_at = {}, 0
for at, row in ipairs(rows) do
  looked_at = at
  local fields, wanted = row[2], 0
  for place = 1, #fields, 2 do
    local name = fields[place]
    if (name == 'key' or name == 'user_id' or name == 'status') and input[name] == fields[place + 1] then
      wanted = wanted + 1
    end
  end
  if wanted == input.asked then
    found[#found + 1], found[#found + 2] = row[1], fields
    if #found >= 2 * input.most then break end
  end
end
return { looked_at, rows[looked_at] and rows[looked_at][1] or false, found }
