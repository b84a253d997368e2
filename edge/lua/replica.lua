-- The gate's stock, from the edge's own replica of its Redis. Must not: write, or ask a master.
local lrucache = require("resty.lrucache")
local redis = require("nginx.redis")
local settings = require("edge").settings

local LOOK_EVERY_MS = 1000 -- at the state of the replica itself
local OFF_MS = 1000 -- a replica that failed is not asked for so long
local IDLE_MS_MAX = 10000
local CONNECTIONS_MAX = 64 -- kept open by each worker
local PRODUCTS_MAX = 2048
-- In the packed field `gate`: 'O' means that the SKU sells from here; otherwise its numbers are being rebuilt. A gate of
-- another format is the servers' to read, or to rebuild.
local STATE_AT = 41
local FORMAT_AT = 71
local FORMAT = 2

local replica = {}
local skus = assert(lrucache.new(PRODUCTS_MAX)) -- of products, as last read
local off_until_ms, looked_at_ms, heard_at_ms = 0, 0, 0

local function now_ms() return ngx.now() * 1000 end

-- Seconds since the replica heard from its master, or nil if it can't be trusted.
local function silence_of(info)
	if type(info) ~= "string" or not info:find("role:slave", 1, true) then return nil end
	if not info:find("master_link_status:up", 1, true) then return nil end
	local seconds = tonumber(info:match("master_last_io_seconds_ago:(%-?%d+)"))
	if seconds and seconds >= 0 and seconds <= settings.replica_silence_s_max then return seconds end
end

-- One round trip: the product's SKU, and the stock of the SKU that it had when it was last read.
local function ask(client, product, sku, is_look_due)
	client:init_pipeline(3)
	client:get(settings.redis_prefix .. ":product:" .. product)
	if sku then client:hmget("{" .. settings.redis_prefix .. ":" .. sku .. "}:s", "avail", "gate") end
	if is_look_due then client:info("replication") end
	local replies = client:commit_pipeline()
	if not replies then return nil end
	return replies[1], sku and replies[2], is_look_due and replies[#replies]
end

local function units_of(state)
	if type(state) ~= "table" or type(state[1]) ~= "string" then return nil end
	local gate = state[2]
	if type(gate) == "string" then
		if gate:byte(FORMAT_AT) ~= FORMAT or gate:sub(STATE_AT, STATE_AT) ~= "O" then return nil end
	end
	return state[1]:match("^%-?%d+$")
end

-- Throws an error if the replica must not be used for a while.
local function read(client, product)
	local known, state, info = skus:get(product), nil, nil
	local is_look_due = now_ms() - looked_at_ms >= LOOK_EVERY_MS or now_ms() < looked_at_ms
	local sku
	sku, state, info = ask(client, product, known, is_look_due)
	if sku == nil then error("no answer") end
	if is_look_due then
		local silence_s = silence_of(info) or error("no replica, or out of touch with its master")
		looked_at_ms = now_ms()
		heard_at_ms = looked_at_ms - silence_s * 1000
	end
	if type(sku) ~= "string" then return nil end
	if sku ~= known then
		skus:set(product, sku)
		local again
		again, state = ask(client, product, sku, false)
		if again == nil then error("no answer") end
		if again ~= sku then return nil end
	end
	return units_of(state)
end

-- The available units in digits (negative: a debt), and when the replica had last heard from its master, in ms since 1970;
-- or nil if the servers are to be asked.
function replica.available(product)
	local now = now_ms()
	-- A clock that was set back must not keep it off.
	local is_off = now < off_until_ms and off_until_ms - now <= OFF_MS
	if settings.redis_port == 0 or is_off then return nil end
	local client = redis:new()
	client:set_timeout(settings.redis_timeout_ms)
	local done, units = false, "can't connect"
	if client:connect(settings.redis_host, settings.redis_port) then
		done, units = pcall(read, client, product)
	end
	if done then
		client:set_keepalive(IDLE_MS_MAX, CONNECTIONS_MAX)
		return units, heard_at_ms
	end
	client:close()
	off_until_ms = now_ms() + OFF_MS
	ngx.log(ngx.WARN, "the servers are asked for the stock for ", OFF_MS, " ms, for the replica fails: ", units)
end

return replica
