-- Open reservations and claims that are at least so old, oldest first; age 0: all, whatever the clock says. It answers for a
-- fenced gate too, and for one of an older format, whose marks are marks of this one. ARGV:
-- run, age in ms, at most how many, the time (0: not to be compared): how old something is can't be said by a clock that is wrong;
-- and how many to pass over.
if not read() then return answer(LOST) end
if format() > FORMAT then return answer(OTHER_FORMAT) end
local at, asked_at = now(), tonumber(ARGV[4])
if asked_at > 0 and math.abs(at - asked_at) > 2000 then return answer(WRONG_CLOCK, at - asked_at) end
local age = tonumber(ARGV[2])
local before = age == 0 and '+inf' or at - age
local ids = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', before, 'LIMIT', tonumber(ARGV[5]), tonumber(ARGV[3]))
local marks = #ids > 0 and redis.call('HMGET', KEYS[2], unpack(ids)) or {}
return answer(DONE, ids, marks)
