-- The sale's window, phase and the SKU's limit, if this version is newer than what is there, or an older release has left
-- out the limit of this one. It does not ask for the run and does not mind a fence: the ledger says so, and a build that is
-- under way must not bring back what was before. The limit changes only before there is an order, so no buyer is counted yet.
-- ARGV: run, version, starts, ends, phase, limit.
if not read() then return answer(LOST) end
if format() ~= FORMAT then return answer(OTHER_FORMAT) end
local version, new_limit = tonumber(ARGV[2]), tonumber(ARGV[6])
local known = tonumber(redis.call('HGET', KEYS[1], 'version'))
if version < known or (version == known and new_limit == limit) then return answer(OLD) end
gate = string.sub(gate, 1, 41) .. ARGV[5]
  .. struct.pack('>I8I8I8I4', epoch, tonumber(ARGV[3]), tonumber(ARGV[4]), new_limit) .. string.char(FORMAT)
seq = seq + 1
redis.call('HSET', KEYS[1], 'gate', gate, 'seq', seq, 'version', version)
return answer(DONE)
