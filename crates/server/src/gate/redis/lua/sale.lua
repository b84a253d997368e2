-- The sale's window and phase, if this version is newer than what is there. It does not ask for the run and does
-- not mind a fence: the ledger says so, and a build that is under way must not bring back what was before.
-- ARGV: run, version, starts, ends, phase.
if not read() then return answer(LOST) end
if format() ~= FORMAT then return answer(OTHER_FORMAT) end
local version = tonumber(ARGV[2])
if version <= tonumber(redis.call('HGET', KEYS[1], 'version')) then return answer(OLD) end
gate = string.sub(gate, 1, 41) .. ARGV[5]
  .. struct.pack('>I8I8I8I4', epoch, tonumber(ARGV[3]), tonumber(ARGV[4]), limit) .. string.char(FORMAT)
seq = seq + 1
redis.call('HSET', KEYS[1], 'gate', gate, 'seq', seq, 'version', version)
return answer(DONE)
