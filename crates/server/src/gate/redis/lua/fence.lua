-- Closes the gate until it is rebuilt; a gate of a later epoch is left alone. ARGV: run, epoch, and `anew` if the ledger may not
-- have the sale's latest version any more: the next build brings what it has.
if not read() then return answer(LOST) end
if tonumber(ARGV[2]) < epoch then return answer(OLD) end
-- One of an older format is fenced for those who sell from it.
if format() > FORMAT then return answer(OTHER_FORMAT) end
local fenced = format() == FORMAT and 'F' or 'f'
-- A build that is under way ends with this: whoever fences builds anew.
local anew = ARGV[3] == 'anew'
if flag() == fenced and not anew then return answer(ALREADY) end
gate = string.sub(gate, 1, 40) .. fenced .. string.sub(gate, 42)
seq = seq + 1
redis.call('HSET', KEYS[1], 'gate', gate, 'seq', seq)
if anew then redis.call('HSET', KEYS[1], 'version', 0) end
return answer(DONE)
