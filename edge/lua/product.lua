-- GET /product?flashPromotionId=S&promotionProductId=P&memberId=M, from cached pages of the servers.
-- The page of a product is the same for all members but for the member's number. So the edge asks a server for the
-- page of a member who does not exist, in the reader's language, cuts it where that number is, and puts the reader's number there. Age-Ms
-- is the age of the server's page. Any other request goes to the servers.
local fresh = require("fresh")
local language = require("language")
local settings = require("edge").settings

-- The largest number that a member can have: nobody has it, and no price, time or stock looks like it.
local NOBODY = "9223372036854775807"
local DIGITS_MAX = 18
local HEADERS = { "Content-Type", "Content-Security-Policy", "Referrer-Policy", "X-Content-Type-Options" }

local product = {}

-- The headers in their order, a line each, and the body.
local function load(sale, item, code)
	local page = ngx.location.capture("/edge/product", {
		args = { flashPromotionId = sale, promotionProductId = item, memberId = NOBODY },
		ctx = { page_language = code },
	})
	if page.status ~= 200 or page.truncated or not page.body:find(NOBODY, 1, true) then return nil end
	local lines = {}
	for index, name in ipairs(HEADERS) do
		lines[index] = page.header[name] or ""
	end
	return table.concat(lines, "\n") .. "\n" .. page.body
end

-- The headers, the body's parts between which the member's number goes, and their length together.
local function decode(text)
	local page = { headers = {}, parts = {}, bytes = 0 }
	local at = 1
	for index = 1, #HEADERS do
		local line_end = text:find("\n", at, true)
		page.headers[index] = text:sub(at, line_end - 1)
		at = line_end + 1
	end
	repeat
		local first, last = text:find(NOBODY, at, true)
		local part = text:sub(at, (first or 0) - 1)
		page.parts[#page.parts + 1] = part
		page.bytes = page.bytes + #part
		at = last and last + 1
	until not first
	return page
end

local function asked()
	local method = ngx.req.get_method()
	if method ~= "GET" and method ~= "HEAD" then return nil end
	local sale, item, member =
		(ngx.var.args or ""):match("^flashPromotionId=(%d+)&promotionProductId=(%d+)&memberId=(%d+)$")
	if sale and #sale <= DIGITS_MAX and #item <= DIGITS_MAX and #member <= DIGITS_MAX then
		return sale, item, member
	end
end

-- A page writes the number without leading zeros.
local function plain(digits)
	return digits:match("^0*(%d+)$")
end

function product.answer()
	local sale, item, member = asked()
	if not sale or settings.cache_ms == 0 then return ngx.exec("@server") end
	local code = language.code()
	local page, age_ms = fresh.get("p" .. code .. "." .. sale .. "." .. item, load, decode, sale, item, code)
	if not page then return ngx.exec("@server") end
	member = plain(member)
	local header, parts = ngx.header, page.parts
	for index, name in ipairs(HEADERS) do
		header[name] = page.headers[index]
	end
	header["Content-Length"] = page.bytes + (#parts - 1) * #member
	header["Cache-Control"] = "private, no-store"
	header["Age-Ms"] = string.format("%.0f", age_ms)
	local body = { parts[1] }
	for index = 2, #parts do
		body[#body + 1] = member
		body[#body + 1] = parts[index]
	end
	ngx.print(body)
end

return product
