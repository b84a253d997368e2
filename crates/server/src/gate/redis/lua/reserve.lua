-- Takes units for orders of one SKU, one after the other, or tells of each why not. The hot path: it reads the state as one
-- packed field (layout in prelude.lua), calls each command once for all orders, and therefore shares no functions with
-- the other scripts.
-- KEYS: state, marks, open, buyers. ARGV: run, the time (0: not to be compared), the limit that the asker knows (0: none),
-- '1' if a gate before this one had taken them already: then by limit, units and that time alone; of each order: hash,
-- body of the mark, record.
-- Answers 0, the state after them, its time, and of each order a code, or a code and what belongs to it; of a gate that may
-- not be used why.
local state = redis.call('HMGET', KEYS[1], 'gate', 'seq', 'avail')
local gate = state[1]
if not gate then return {1} end
local epoch, starts, ends, limit = struct.unpack('>I8I8I8I4', gate, 43)
local seq, avail = tonumber(state[2]), tonumber(state[3])
local format = string.byte(gate, 71) or 1
if format ~= 2 then return {18, epoch, seq, avail, format} end
if string.sub(gate, 41, 41) ~= 'O' then return {2, epoch, seq, avail} end
if string.sub(gate, 1, 40) ~= ARGV[1] then return {3, epoch, seq, avail} end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local asked_at, again = tonumber(ARGV[2]), ARGV[4] == '1'
-- Of every order whose id is unknown.
local refusal
if asked_at > 0 and (now - asked_at > 2000 or asked_at - now > 2000) then
  refusal = {20, now - asked_at}
elseif not again then
  local phase = string.sub(gate, 42, 42)
  if phase == 'e' or now >= ends then refusal = 9
  elseif phase == 'p' then refusal = 8
  elseif now < starts then refusal = 7
  -- One of the two has not heard of the latest change of the sale.
  elseif tonumber(ARGV[3]) ~= limit then refusal = 21 end
end

local ids, fields, orders = {}, {}, (#ARGV - 4) / 3
for order = 1, orders do
  ids[order] = ARGV[3 * order + 2]
  local buyer = string.sub(ARGV[3 * order + 3], 12)
  fields[order] = 'r' .. buyer
  if limit > 0 then fields[orders + order] = buyer end
end
local marks = redis.call('HMGET', KEYS[2], unpack(ids))
local of_buyers = refusal or redis.call('HMGET', KEYS[4], unpack(fields))
local stamp = struct.pack('>I8I8', epoch, now)
-- What these orders change, by id and by buyer, and as it is written.
local taken, has, counts, open, times = {}, {}, {}, {}, {}

local function take(order)
  local id, body = ids[order], ARGV[3 * order + 3]
  -- The id comes before everything else: only a request whose id is unknown can be refused.
  local mark = taken[id] or marks[order]
  if mark then
    if string.sub(mark, 2, #body + 1) ~= body then return 6 end
    if string.sub(mark, 1, 1) == 'o' then return {4, mark} end
    return 5
  end
  if refusal then return refusal end

  local returned = of_buyers[order]
  if returned and not again then
    local _, till = struct.unpack('>I4I8', returned)
    if now < till then return {19, till - now} end
  end
  local units = struct.unpack('>I3', body, 9)
  if units == 0 or units > 1000000 then return 10 end
  local buyer, count = string.sub(body, 12), nil
  if limit > 0 then
    count = (has[buyer] or tonumber(of_buyers[orders + order] or 0)) + units
    if count > limit then return 11 end
  end
  if avail < units then return avail > 0 and 13 or 12 end

  avail, seq = avail - units, seq + 1
  if count then
    has[buyer] = count
    counts[#counts + 1] = buyer
    counts[#counts + 1] = count
  end
  mark = 'o' .. body .. stamp .. ARGV[3 * order + 4]
  taken[id] = mark
  open[#open + 1] = id
  open[#open + 1] = mark
  times[#times + 1] = now
  times[#times + 1] = id
  return 0
end

local answer = {0, epoch, seq, avail, now}
for order = 1, orders do answer[5 + order] = take(order) end
if #open > 0 then
  answer[3], answer[4] = seq, avail
  redis.call('HSET', KEYS[1], 'seq', seq, 'avail', avail)
  if #counts > 0 then redis.call('HSET', KEYS[4], unpack(counts)) end
  redis.call('HSET', KEYS[2], unpack(open))
  redis.call('ZADD', KEYS[3], unpack(times))
end
return answer
