-- Takes units for one order, or tells why not. The hot path: it reads the state as one packed field (layout in
-- prelude.lua), calls as few commands as it can, and therefore shares no functions with the other scripts.
-- KEYS: state, marks, open, buyers. ARGV: run, order hash, record, body of the mark, the time (0: not to be compared),
-- the limit that the asker knows (0: none), and anything if a gate before this one had taken them already: then by limit,
-- units and that time alone.
local state = redis.call('HMGET', KEYS[1], 'gate', 'seq', 'avail')
local gate = state[1]
if not gate then return {1} end
local epoch, starts, ends, limit = struct.unpack('>I8I8I8I4', gate, 43)
local seq, avail = tonumber(state[2]), tonumber(state[3])
local format = string.byte(gate, 71) or 1
if format ~= 2 then return {18, epoch, seq, avail, format} end
if string.sub(gate, 41, 41) ~= 'O' then return {2, epoch, seq, avail} end
if string.sub(gate, 1, 40) ~= ARGV[1] then return {3, epoch, seq, avail} end

-- The id comes before everything else: only a request whose id is unknown can be refused.
local id, body = ARGV[2], ARGV[4]
local mark = redis.call('HGET', KEYS[2], id)
if mark then
  if string.sub(mark, 2, #body + 1) ~= body then return {6, epoch, seq, avail} end
  if string.sub(mark, 1, 1) == 'o' then return {4, epoch, seq, avail, mark} end
  return {5, epoch, seq, avail}
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local asked_at = tonumber(ARGV[5])
if asked_at > 0 and (now - asked_at > 2000 or asked_at - now > 2000) then
  return {20, epoch, seq, avail, now - asked_at}
end
local again = ARGV[7]
if not again then
  local phase = string.sub(gate, 42, 42)
  if phase == 'e' or now >= ends then return {9, epoch, seq, avail} end
  if phase == 'p' then return {8, epoch, seq, avail} end
  if now < starts then return {7, epoch, seq, avail} end
  -- One of the two has not heard of the latest change of the sale.
  if tonumber(ARGV[6]) ~= limit then return {21, epoch, seq, avail} end
end

local buyer = string.sub(body, 12)
local has, returned
if limit > 0 then
  local known = redis.call('HMGET', KEYS[4], buyer, 'r' .. buyer)
  has, returned = tonumber(known[1] or 0), known[2]
else
  returned = redis.call('HGET', KEYS[4], 'r' .. buyer)
end
if returned and not again then
  local _, till = struct.unpack('>I4I8', returned)
  if now < till then return {19, epoch, seq, avail, till - now} end
end
local units = struct.unpack('>I3', body, 9)
if units == 0 or units > 1000000 then return {10, epoch, seq, avail} end
if has and has + units > limit then return {11, epoch, seq, avail} end
if avail < units then return {avail > 0 and 13 or 12, epoch, seq, avail} end

avail, seq = avail - units, seq + 1
redis.call('HSET', KEYS[1], 'seq', seq, 'avail', avail)
if has then redis.call('HSET', KEYS[4], buyer, has + units) end
redis.call('HSET', KEYS[2], id, 'o' .. body .. struct.pack('>I8I8', epoch, now) .. ARGV[3])
redis.call('ZADD', KEYS[3], now, id)
return {0, epoch, seq, avail, now}
