-- All that is known of some identities of a type.
--
-- input    list of keys
-- returns  per key: { record or '', the payload beside it or false }

local found = {}
for at, key in ipairs(input) do
  found[at] = { call('GET', task_key .. key) or '', call('GET', named('payload', key)) }
end
return found
