-- Takes an order: reads the buyer and the body, asks the script, answers. A connection to Redis is kept for the next one.
local cjson = require "cjson.safe"
local redis = require "nginx.redis"

local TIMEOUT_MS = 2000
local CONNECTIONS_MAX, IDLE_MS = 256, 60000
local LIMIT = 1

local order = {}
local script, sha, port

function order.load(path, redis_port)
	local file = assert(io.open(path))
	script, port = file:read("*a"), redis_port
	file:close()
end

local function answer(status, body)
	ngx.status = status
	ngx.header.content_type = "application/json"
	ngx.header.content_length = #body
	ngx.print(body)
end

-- By its hash; a Redis that was restarted has forgotten the script, and did nothing.
local function run(client, ...)
	if sha then
		local result, err = client:evalsha(sha, ...)
		if result or not tostring(err):find("NOSCRIPT", 1, true) then
			return result, err
		end
	end
	local loaded, err = client:script("load", script)
	if not loaded then
		return nil, err
	end
	sha = loaded
	return client:evalsha(sha, ...)
end

function order.place()
	ngx.req.read_body()
	local wanted = cjson.decode(ngx.req.get_body_data() or "")
	local buyer = ngx.var.http_member_id
	local product = type(wanted) == "table" and tonumber(wanted.product)
	local quantity = product and tonumber(wanted.quantity)
	if not buyer or not quantity or quantity < 1 or quantity % 1 ~= 0 then
		return answer(400, '{"type":"/bad-request"}')
	end
	local client = redis:new()
	client:set_timeout(TIMEOUT_MS)
	if not client:connect("127.0.0.1", port) then
		return answer(503, '{"type":"/unavailable"}')
	end
	local id = string.format("%08x", product) .. ngx.var.request_id
	local row = cjson.encode({ buyer = buyer, quantity = quantity, address = wanted.address, at = ngx.time() })
	local result = run(client, 3, "stock:" .. product, "bought:" .. product, "orders:" .. product, buyer, quantity, LIMIT, id, row)
	if not result then
		-- Sent, and no answer: it may have been carried out.
		return answer(503, '{"type":"/outcome-unknown"}')
	end
	client:set_keepalive(IDLE_MS, CONNECTIONS_MAX)
	if result == "placed" then
		return answer(201, '{"id":"' .. id .. '"}')
	end
	answer(409, '{"type":"/' .. result .. '"}')
end

return order
