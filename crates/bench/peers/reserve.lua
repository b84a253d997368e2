-- KEYS: the stock, the units by buyer, the orders. ARGV: buyer, quantity, limit per buyer, id, the order.
local buyer, quantity, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if tonumber(redis.call("HGET", KEYS[2], buyer) or 0) + quantity > limit then
	return "over-limit"
end
if tonumber(redis.call("GET", KEYS[1]) or 0) < quantity then
	return "sold-out"
end
redis.call("DECRBY", KEYS[1], quantity)
redis.call("HINCRBY", KEYS[2], buyer, quantity)
redis.call("HSET", KEYS[3], ARGV[4], ARGV[5])
return "placed"
