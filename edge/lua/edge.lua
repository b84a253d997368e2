-- The edge's settings, read once in nginx's master process, and the one place that decides who a buyer is.
local edge = { settings = {} }

function edge.configure(settings)
	edge.settings = settings
	settings.known_languages = {}
	for _, code in ipairs(settings.languages) do
		settings.known_languages[code] = true
	end
	if not settings.demo then
		require("token").read_secrets(settings.token_secret_file, settings.token_secret_previous_file)
	end
	-- Loaded here, so that the workers share the code and a mistake in it shows at the start.
	require("language")
	require("problem")
	require("stock")
	require("product")
end

-- Looks like a JSON Web Token: an operator's token, which only the servers can judge, is passed on unread.
local function buyers_token()
	local header = ngx.var.http_authorization
	if not header then
		return ngx.var["cookie_" .. edge.settings.token_cookie]
	end
	return header:match("^[Bb][Ee][Aa][Rr][Ee][Rr] +(eyJ[^.]*%.[^.]*%.[^.]*)$")
end

-- Sets what the servers get as memberId: the buyer in the token, or none. Refuses a bad token, instead of
-- treating its bearer as anonymous.
function edge.know_buyer()
	if edge.settings.demo then
		ngx.var.member_id = ngx.var.http_memberid
		return
	end
	local token = buyers_token()
	if not token then return end
	local member, detail = require("token").verify(token, ngx.time())
	if not member then
		return require("problem").answer("unauthorized", detail)
	end
	ngx.var.member_id = member
end

return edge
