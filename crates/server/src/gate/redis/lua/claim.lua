-- Takes units before the ledger does, for what is decided there: a late payment ('c', over a mark 'r') or a
-- correction ('d', under a key of its own). ARGV: run, kind, order hash or key, body, record.
local why = closed()
if why then return answer(why) end
local kind, id, body = ARGV[2], ARGV[3], ARGV[4]
local mark = redis.call('HGET', KEYS[2], id)
if mark and string.sub(mark, 2, #body + 1) ~= body then return answer(CONFLICT) end
local state = mark and letter(mark)
if state == kind then return answer(OPEN, mark) end
if state == 'l' or state == 'a' then return answer(SETTLED) end
local _, units, buyer = parts(kind .. body)
if kind == 'c' then
  -- The outbox has not given the units back yet: they can't be taken again before.
  if state == 'o' or state == 's' then return answer(NOT_YET) end
  if state ~= 'r' then return answer(DRIFT) end
elseif state then
  return answer(CONFLICT)
end
if avail < units then return answer(avail > 0 and NOT_ENOUGH or SOLD_OUT) end
if buyer and limit > 0 and tonumber(redis.call('HGET', KEYS[4], buyer) or 0) + units > limit then
  return answer(OVER_LIMIT)
end
local at = now()
take(units, buyer)
redis.call('HSET', KEYS[2], id, kind .. body .. struct.pack('>I8I8', epoch, at) .. ARGV[5])
redis.call('ZADD', KEYS[3], at, id)
write()
return answer(DONE, at)
