--- call beat
--- call tick
-- A sign of life, and a sweep of many types in one call, where one node has all of them.
--
-- KEYS[1]  instances
-- input    beat    what beat.lua is told
--          sweep   what tick.lua is told
--          names   the types to be swept
-- returns  { now, the names of all types, per name: what tick.lua says }

local function told(name, packed) return { prefix, name, ARGV[3], packed, ARGV[5] } end

local sweep, swept, problem = cmsgpack.pack(input.sweep), {}, nil
local seen_at = beat({ KEYS[1] }, told('any', cmsgpack.pack(input.beat)))
for at, name in ipairs(input.names) do
  -- What is wrong with one type does not keep the others from being swept.
  local is_done, answer = pcall(tick, { prefix .. 'type:{' .. name .. '}' }, told(name, sweep))
  swept[at] = is_done and answer
  problem = problem or not is_done and answer
end
if problem then error(problem) end
return { seen_at, call('SMEMBERS', prefix .. 'task_types'), swept }
