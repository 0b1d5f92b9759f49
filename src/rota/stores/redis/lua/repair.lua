-- Put right what the indexes say of some tasks, each only if its record is still as it was read.
--
-- input    list of { key, digest of its record, command }
-- returns  how many were really wrong: whoever was faster has repaired the others

local repaired = 0
for _, item in ipairs(input) do
  local key, digest, command = item[1], item[2], item[3]
  if redis.sha1hex(call('GET', task_key .. key) or '') == digest then
    -- A wrong score that is put right counts as well.
    if command[1] == 'ZADD' then table.insert(command, 3, 'CH') end
    if call(unpack(command)) > 0 then repaired = repaired + 1 end
  end
end
if repaired > 0 then call('PUBLISH', prefix .. 'wake', ARGV[5]) end
return repaired
