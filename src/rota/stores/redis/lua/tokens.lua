--- include token
-- Take tokens, whatever becomes of the step that they are for: one may be wasted, none is used twice.
--
-- input    claim_id, count, above   the highest token that any of the tasks has had
-- returns  the last of them

read_last_token(input.claim_id)
last_token = math.max(last_token, input.above) + input.count
write_last_token()
return string.format('%.0f', last_token)
