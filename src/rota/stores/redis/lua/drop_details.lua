--- include details
-- Remove what runs have left.
--
-- input    items    list of { key, tokens }: of these runs; without tokens of all runs of the key
--          before   if given, only of keys that have left nothing since
-- returns  0

for _, item in ipairs(input.items) do
  local key, tokens = unpack(item)
  local written_at = tonumber(call('ZSCORE', named('detailed'), key))
  if input.before and (written_at == nil or written_at >= input.before) then
    -- It has left something meanwhile.
  elseif tokens then
    call('HDEL', named('details', key), unpack(tokens))
    if call('EXISTS', named('details', key)) == 0 then drop_details(key) end
  else
    drop_details(key)
  end
end
return 0
