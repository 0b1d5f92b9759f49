--- include record
--- include details
-- Write what a unit of work has decided, if nothing that it has read changed meanwhile.
--
-- input    guards    list of { kind, key, ... }: what must still be so
--                      { 'hash', key, digest }           the fields of a hash
--                      { 'record', key, digest }         a record
--                      { 'field', key, field, value }    one field; value '' means that it is absent
--                      { 'members', key, count }         how many are in a set
--                      { 'ranked', key, count }          how many are in a sorted set
--                      { 'atmost', key, field, value }   a counter has not grown
--                      { 'scored', key, score, digest }  the members of a sorted set that have a score
--          records   list of { task key, table of what never changes, table of what does }
--          commands  list of commands, in order
--          runs      list of { recurring, status, started_at, fire_at, token, attempt, duration_ms, instance, key, table of the rest }
--          details   list of { key, token, details }
--          completions   list of fields, for the pump
--          serials   those that may have nobody parked any more
--          wake      whether something is due soon
-- returns  1, or 0 if a guard does not hold: then nothing was written

local CHECKS = {
  hash = function(key, digest) return redis.sha1hex(table.concat(call('HGETALL', key), '\0')) == digest end,
  record = function(key, digest) return redis.sha1hex(call('GET', key) or '') == digest end,
  field = function(key, field, value) return (call('HGET', key, field) or '') == value end,
  members = function(key, size) return call('SCARD', key) == size end,
  ranked = function(key, size) return call('ZCARD', key) == size end,
  scored = function(key, score, digest)
    return redis.sha1hex(table.concat(call('ZRANGEBYSCORE', key, score, score), '\0')) == digest
  end,
  atmost = function(key, field, value) return num(call('HGET', key, field)) <= value end,
}

for _, guard in ipairs(input.guards) do
  if not CHECKS[guard[1]](guard[2], guard[3], guard[4]) then return 0 end
end
for _, record in ipairs(input.records) do write(record[1], record[3], fixed_of(record[2])) end
write_changes()
for _, command in ipairs(input.commands) do call(unpack(command)) end
for _, run in ipairs(input.runs) do
  local recurring, status, started_at, fire_at, token, attempt, duration_ms, instance, key, others = unpack(run)
  local row = packed_row(status, started_at, fire_at, token, attempt, duration_ms, instance, key, NOTHING_FIXED, others)
  log_run(key, row, recurring)
end
for _, left in ipairs(input.details) do keep_details(unpack(left)) end
for _, fields in ipairs(input.completions) do append(named('after'), COMPLETIONS_KEPT, unpack(fields)) end
for _, serial in ipairs(input.serials) do
  if call('EXISTS', named('parked', serial)) == 0 then call('SREM', named('serials'), serial) end
end
if input.wake then call('PUBLISH', prefix .. 'wake', ARGV[5]) end
return 1
