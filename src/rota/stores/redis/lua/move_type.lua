-- Take a type from where the first layout had it; what stays there is no hash, and no older script gets past it.
--
-- input    words   what stays
-- returns  1, or 0 if that was done before

local old = prefix .. 'task_type' .. tag
if call('TYPE', old).ok ~= 'hash' then return 0 end
call('RENAME', old, type_hash)
call('SET', old, input.words)
return 1
