-- One row of the ledger's outbox, applied once. ARGV: run, epoch of the row, kind, order hash or row key, body, and the
-- first wait of a buyer whose holds came back, in ms.
--   r release: units of a closed order go back on sale   t take: the ledger admitted an order of an older epoch
--   s restock   l take of a late payment and d correction, whose claim this gate may or may not have
-- A release never touches a late payment ('c', 'l'): it is the same release, reported twice.
local MOVES = {
  r = { s = 'r', o = 'r', r = ALREADY, c = ALREADY, l = ALREADY },
  t = { o = 's', s = ALREADY, r = ALREADY, c = ALREADY, l = ALREADY, new = 's' },
  s = { a = ALREADY, new = 'a' },
  l = { r = 'l', c = 'l', l = ALREADY, new = 'l' },
  d = { d = 'a', a = ALREADY, new = 'a' },
}

local why = closed()
if why then return answer(why) end
local asked = tonumber(ARGV[2])
if asked ~= epoch then return answer(asked < epoch and OLD or NOT_YET) end
local kind, id, body = ARGV[3], ARGV[4], ARGV[5]
local mark = redis.call('HGET', KEYS[2], id)
local to = MOVES[kind][mark and letter(mark) or 'new']
if not to or (mark and string.sub(mark, 2, #body + 1) ~= body) then return answer(DRIFT) end
if to == ALREADY then return answer(ALREADY) end

local fresh = to .. body
local _, units, buyer = parts(fresh)
local open = mark and string.find('ocd', letter(mark), 1, true)
if kind == 'r' or kind == 's' then
  take(-units, buyer)
elseif not open then
  take(units, buyer)
end
if kind == 'r' then count_returned(buyer, tonumber(ARGV[6]), now()) end
redis.call('HSET', KEYS[2], id, fresh)
if open then redis.call('ZREM', KEYS[3], id) end
write()
return answer(DONE)
