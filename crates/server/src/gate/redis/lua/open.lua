-- Open reservations and claims that are at least so old, oldest first. It answers for a fenced gate too, for whoever
-- rebuilds it reads them, and for one of an older format, whose marks are marks of this one. ARGV: run, age in ms, at most how many.
if not read() then return answer(LOST) end
if format() > FORMAT then return answer(OTHER_FORMAT) end
local before = now() - tonumber(ARGV[2])
local ids = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', before, 'LIMIT', 0, tonumber(ARGV[3]))
local marks = #ids > 0 and redis.call('HMGET', KEYS[2], unpack(ids)) or {}
return answer(DONE, ids, marks)
