--- include record
--- include plain
--- include token
--- include lanes
--- include allowance
--- include claim_rules
-- pending -> running: due, in rank order, within rate and serial limits; a due task whose serial is busy is parked.
--
-- input    limit, instance, claim_id, lease_ms (or nothing: the type's timeout),
--          exclude   set of keys that are passed over, excluded   how many they are
--          step      nothing: as many as may start, up to the limit. Where several types share one limit, and each may
--                    be on a node of its own, the caller shares it out between two steps of each type:
--                    'look': write nothing, answer with the first due ones;
--                    'share': start the first due ones; what cannot start leaves its place to whoever is next in rank
-- returns  { now, when to ask again or '', flat list of key, record, payload beside it or false };
--          to 'look' { now, when the next one is due if fewer than the limit are, flat list of rank, due time, priority };
--          to 'share' the time is '' unless the rate allows no more until then;
--          or { now, RARE } if something is due that this script does not know: then nothing was written

if not read_type() or not runs or input.limit <= 0 then return { now, '', {} } end

open_lanes()

local function candidates(wanted) return first_due(wanted + input.excluded, input.exclude) end

if input.step == 'look' then
  local found, seen = candidates(input.limit), {}
  for at = 1, math.min(input.limit, #found) do
    for _, each in ipairs({ found[at].rank, found[at].due_at, found[at].priority }) do seen[#seen + 1] = each end
  end
  return { now, #found < input.limit and next_due() or '', seen }
end

open_buckets()
open_lease()

local is_asked = false

local function answer(ask_at)
  if is_asked then write_buckets() end
  if number_taken > 0 then write_last_token() end
  count(STATUS.pending, -number_taken)
  count(STATUS.running, number_taken)
  write_changes()
  return { now, ask_at, taken }
end

for round = 1, CLAIM_ROUNDS do
  local wanted = input.limit - number_taken
  local found = candidates(wanted)
  local number = math.min(wanted, #found)
  if not read_all(found, number) then
    if number_taken == 0 and round == 1 then return { now, RARE } end
    -- The next claim will find them first of all, and leave them to the slow way.
    return answer(now)
  end
  if number > 0 and not is_asked then
    read_last_token(input.claim_id)
    is_asked = true
  end
  for at = 1, number do
    if not try(found[at]) then break end
  end
  write_changes()
  if wait_ms then return answer(now + wait_ms) end
  if input.step == 'share' then return answer('') end
  if number_taken >= input.limit then return answer(now) end
  if #found < wanted then return answer(next_due()) end
end
-- The bound on one step is reached, and more may be due behind what was parked: worth asking again at once.
return answer(now)
