-- Shared by all scripts but reserve.lua. KEYS: state, marks, open, buyers, all of one hash slot. ARGV begins with the
-- run of the master that the client is connected to.
--
-- The state's field 'gate' is packed, because reading one field is an eighth cheaper than reading eight:
--   1..40 run of the master that it was built for   41 'O' open, 'F' fenced, 'B' being built
--   42 'l' selling, 'p' paused, 'e' ended           43.. epoch, starts, ends (8 bytes each), limit (4 bytes)
--   71 format, of the state and of the marks: 2. Format 1 ends with the limit and has small letters at 41, so that its
--   servers take a gate of a later format for a fenced one. A gate of another format is closed to us; one of an older format
--   is fenced and rebuilt, one of a newer format is left alone.
-- Its other fields are text: seq, avail (a debt is negative), version of the sale's state.
--
-- A mark is a letter and a body: fingerprint (8), units (3), buyer: 8 bytes of a number, 16 of a hash, which begins with a
-- bit set that no number has set; for an adjustment by an operator: units (8) and zeros (11). Marks of open things go on with epoch (8), time (8) and the caller's record.
--   'o' open reservation        's' in the ledger             'r' in the ledger, its units given back
--   'x' rejected, units kept    'y' rejected, units given back
--   'c' open claim of a late payment   'l' paid late          'd' open claim of a correction   'a' adjustment made
--
-- buyers: a field for each buyer, with the units that the buyer holds and owns, as text, if the SKU has a limit; and one
-- named 'r' and the buyer if holds came back: how many (4 bytes), and until when the buyer waits before the next order (8).
local DONE, LOST, FENCED, OTHER_RUN, OPEN, SETTLED, CONFLICT = 0, 1, 2, 3, 4, 5, 6
local OVER_LIMIT, SOLD_OUT, NOT_ENOUGH = 11, 12, 13
local ALREADY, OLD, NOT_YET, DRIFT = 14, 15, 16, 17
local OTHER_FORMAT = 18
local WRONG_CLOCK = 20
local FORMAT = 2

local gate, seq, avail, epoch, starts, ends, limit

-- Reads the state, whatever it is; false if there is none.
local function read()
  local state = redis.call('HMGET', KEYS[1], 'gate', 'seq', 'avail')
  gate = state[1]
  if not gate then return false end
  seq, avail = tonumber(state[2]), tonumber(state[3])
  epoch, starts, ends, limit = struct.unpack('>I8I8I8I4', gate, 43)
  return true
end

local function flag() return string.sub(gate, 41, 41) end

local function format() return string.byte(gate, 71) or 1 end

local function answer(code, ...)
  if code == OTHER_FORMAT then return {code, epoch, seq, avail, format()} end
  return {code, epoch or 0, seq or 0, avail or 0, ...}
end

-- The code that says why nothing may be read or changed here; nil if all is well.
local function closed()
  if not read() then return LOST end
  if format() ~= FORMAT then return OTHER_FORMAT end
  if flag() ~= 'O' then return FENCED end
  if string.sub(gate, 1, 40) ~= ARGV[1] then return OTHER_RUN end
end

local function letter(mark) return string.sub(mark, 1, 1) end

-- Body, units and buyer of a mark; an adjustment has no buyer.
local function parts(mark)
  local kind, body = letter(mark), string.sub(mark, 2, string.byte(mark, 13) >= 128 and 28 or 20)
  if kind == 'a' or kind == 'd' then return body, struct.unpack('>I8', body), nil end
  return body, struct.unpack('>I3', body, 9), string.sub(body, 12)
end

-- Moves units: taken from sale if positive, given back if negative. A debt is kept, not clamped.
local function take(units, buyer)
  avail = avail - units
  if limit == 0 or not buyer then return end
  if redis.call('HINCRBY', KEYS[4], buyer, units) == 0 then redis.call('HDEL', KEYS[4], buyer) end
end

-- Counts a hold that came back. Two are free; from the third on the buyer waits, twice as long each time (as engine's
-- CoolDown, which gives the bound 30 its reason).
local function count_returned(buyer, first_ms, at)
  local field = 'r' .. buyer
  local known = redis.call('HGET', KEYS[4], field)
  local count = (known and struct.unpack('>I4', known) or 0) + 1
  local till = count > 2 and at + first_ms * 2 ^ math.min(count - 3, 30) or 0
  redis.call('HSET', KEYS[4], field, struct.pack('>I4I8', count, till))
end

local function write()
  seq = seq + 1
  redis.call('HSET', KEYS[1], 'seq', seq, 'avail', avail)
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
