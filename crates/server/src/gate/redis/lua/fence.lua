-- Closes the gate until it is rebuilt; a gate of a later epoch is left alone. ARGV: run, epoch.
if not read() then return answer(LOST) end
if tonumber(ARGV[2]) < epoch then return answer(OLD) end
-- A build that is under way ends with this: whoever fences builds anew.
if flag() == 'f' then return answer(ALREADY) end
gate = string.sub(gate, 1, 40) .. 'f' .. string.sub(gate, 42)
seq = seq + 1
redis.call('HSET', KEYS[1], 'gate', gate, 'seq', seq)
return answer(DONE)
