-- The language of a page: the reader's choice, which is in a cookie, or the best that Accept-Language asks for, as the servers
-- choose it; the first of settings.languages for whoever asks for none of them.
local settings = require("edge").settings

local COOKIE = "doorbuster_language"
local RANGES_MAX = 16

local language = {}

-- zh-TW is served by zh.
local function lookup(range)
	range = range:lower()
	while range do
		if settings.known_languages[range] then return range end
		range = range:match("^(.*)%-[^-]*$")
	end
end

local function accepted(header)
	local best, best_weight, ranges = nil, 0, 0
	for part in header:gmatch("[^,]+") do
		ranges = ranges + 1
		if ranges > RANGES_MAX then break end
		local range, parameter = part:match("^%s*([^;%s]*)%s*;?%s*(.-)%s*$")
		local weight = 1
		if parameter:sub(1, 2) == "q=" then weight = tonumber(parameter:sub(3)) or 0 end
		if weight > best_weight then
			local found = lookup(range)
			if found then best, best_weight = found, weight end
		end
	end
	return best
end

-- Its code.
function language.code()
	local chosen = ngx.var["cookie_" .. COOKIE]
	if chosen and settings.known_languages[chosen] then return chosen end
	local header = ngx.var.http_accept_language
	return header and accepted(header) or settings.languages[1]
end

-- What the name of a page's file has between its stem and ".html".
function language.suffix()
	local code = language.code()
	return code == settings.languages[1] and "" or "." .. code
end

return language
