-- The marks of orders, with the records of those that are open. ARGV: run, order hashes.
local why = closed()
if why then return answer(why) end
local ids = {}
for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
return answer(DONE, redis.call('HMGET', KEYS[2], unpack(ids)))
