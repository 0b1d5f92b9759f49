--- include record
-- Make records of hashes, each if it is still as it was read.
--
-- input    list of { key, digest, fixed, changing }   digest of the hash, what never changes, what does
-- returns  how many were written

local written = 0
for _, item in ipairs(input) do
  local at = task_key .. item.key
  if call('TYPE', at).ok == 'hash' and redis.sha1hex(table.concat(call('HGETALL', at), '\0')) == item.digest then
    write(item.key, item.changing, fixed_of(item.fixed))
    written = written + 1
  end
end
write_changes()
return written
