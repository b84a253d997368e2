-- The edge's own refusals, in the same format as the servers' (RFC 9457, or the published one).
local cjson = require("cjson.safe")

local RETRY_AFTER_S = 1
local problems = {
	unauthorized = { 401, "The buyer is not known" },
	rate_limited = { 429, "Too many requests", "Too many requests come from your address; try again." },
	unavailable = { 503, "Not serving", "No server can be reached; try again." },
	outcome_unknown = {
		503,
		"The outcome is not known",
		"The server that was asked is gone, so it is not known whether this happened. Ask again with the same key.",
	},
}

local problem = {}

-- Answers the request with a problem.
function problem.answer(code, detail)
	local status, title, usual_detail = unpack(problems[code])
	detail = detail or usual_detail
	local body
	if ngx.var.uri:find("^/seckillOrder/") then
		ngx.header.content_type = "application/json"
		body = '{"code":500,"message":' .. cjson.encode(detail) .. ',"data":null}'
	else
		ngx.header.content_type = "application/problem+json"
		body = cjson.encode({
			type = "https://doorbuster.dev/problems/" .. code:gsub("_", "-"),
			title = title,
			status = status,
			detail = detail,
			code = code,
		})
	end
	ngx.status = status
	if status == 429 or status == 503 then ngx.header.retry_after = RETRY_AFTER_S end
	ngx.header.cache_control = "no-store"
	ngx.header.x_content_type_options = "nosniff"
	ngx.header.content_length = #body
	ngx.print(body)
	return ngx.exit(ngx.HTTP_OK)
end

return problem
