-- GET /cache/stock?productId=N, from the replica. Age-Ms is the age of what was read there; Replica-Silence-S is for
-- how long the replica may not have heard from its master. Any other request goes to the servers: they
-- know which products there are, and which sale has which SKU.
local fresh = require("fresh")
local replica = require("replica")

local PRODUCT_DIGITS_MAX = 19

local stock = {}

local function load(product)
	local units, heard_at_ms = replica.available(product)
	return units and string.format("%s %.0f", units, heard_at_ms)
end

-- A debt is reported as sold out.
local function decode(text)
	local units, heard_at_ms = text:match("^(%S+) (%d+)$")
	return { units = units:find("-", 1, true) and "0" or units, heard_at_ms = tonumber(heard_at_ms) }
end

function stock.answer()
	local product = (ngx.var.args or ""):match("^productId=(%d+)$")
	local method = ngx.req.get_method()
	if not product or #product > PRODUCT_DIGITS_MAX or method ~= "GET" and method ~= "HEAD" then
		return ngx.exec("@server")
	end
	local read, age_ms = fresh.get("s" .. product, load, decode, product)
	if not read then return ngx.exec("@server") end
	local header = ngx.header
	header["Content-Type"] = "text/plain; charset=utf-8"
	header["Content-Length"] = #read.units
	header["Cache-Control"] = "no-store"
	header["X-Content-Type-Options"] = "nosniff"
	header["Age-Ms"] = string.format("%.0f", age_ms)
	header["Replica-Silence-S"] = math.ceil(math.max(0, ngx.now() - read.heard_at_ms / 1000))
	ngx.print(read.units)
end

return stock
