-- The newest SKU of a product, for the edge: SKU numbers grow, so an older one never replaces a newer one.
-- KEYS: the product's key. ARGV: run (not asked for: it is for the edge's page only), SKU as hexadecimal digits.
local known = redis.call('GET', KEYS[1])
if not known or known < ARGV[2] then redis.call('SET', KEYS[1], ARGV[2]) end
return {0, 0, 0, 0}
