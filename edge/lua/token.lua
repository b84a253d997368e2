-- The buyers' tokens: JSON Web Tokens (RFC 7519) signed with HS256, and no other kind, by the same rules as the
-- servers'. The signature is checked before anything in the token is used.
local base64 = require("ngx.base64")
local cjson = require("cjson.safe")
local ffi = require("ffi")

-- nginx itself is linked with libcrypto.
ffi.cdef([[
const void *EVP_sha256(void);
unsigned char *HMAC(const void *md, const void *key, int key_bytes, const unsigned char *data, size_t data_bytes,
	unsigned char *tag, unsigned int *tag_bytes);
int CRYPTO_memcmp(const void *a, const void *b, size_t bytes);
]])

local TOKEN_BYTES_MAX = 2048
local SECRET_BYTES_MIN = 32
local TAG_BYTES = 32
local MEMBER_BYTES_MAX = 128
-- Later than any shop lasts.
local SECONDS_MAX = 1e15
-- The ledger keeps numbers of buyers with a sign.
local MEMBER_MAX = "9223372036854775807"
-- Above this a JSON number has lost digits in Lua: the shop writes such a number as text.
local EXACT_MAX = 2 ^ 53
-- {"alg":"HS256","typ":"JWT"}, as most libraries write it.
local USUAL_HEADER = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"

local token = {}
-- The newest first: nearly all tokens are signed with it.
local secrets = {}
local sha256 = ffi.C.EVP_sha256()
local tag = ffi.new("unsigned char[?]", TAG_BYTES)

local function read_secret(path)
	local file = assert(io.open(path, "rb"))
	local secret = file:read("*a"):gsub("\r?\n$", "")
	file:close()
	assert(#secret >= SECRET_BYTES_MIN, path .. ": the secret must have at least " .. SECRET_BYTES_MIN .. " bytes")
	return secret
end

-- While the shop changes its secret, tokens of the previous one are taken too.
function token.read_secrets(path, previous_path)
	secrets = { read_secret(path) }
	if previous_path ~= "" then secrets[2] = read_secret(previous_path) end
end

-- Only what is canonical: no padding, no stray bits at the end, no other alphabet.
local function decode(text)
	local bytes = base64.decode_base64url(text)
	if bytes and base64.encode_base64url(bytes) == text then return bytes end
end

local function is_signed(text, signature)
	if #signature ~= TAG_BYTES then return false end
	for _, secret in ipairs(secrets) do
		ffi.C.HMAC(sha256, secret, #secret, text, #text, tag, nil)
		if ffi.C.CRYPTO_memcmp(tag, signature, TAG_BYTES) == 0 then return true end
	end
	return false
end

local function is_hs256(header)
	if header == USUAL_HEADER then return true end
	local fields = cjson.decode(decode(header) or "")
	return type(fields) == "table" and fields.alg == "HS256" and fields.crit == nil
end

-- What a header can carry unchanged, as the servers have it: 1 to 128 bytes of UTF-8 (which JSON's texts are) without
-- control characters, and without spaces at the ends.
local function member_of(claim)
	if claim == nil then return nil, "The token has no subject: the claim that names the buyer is missing." end
	if type(claim) == "number" then
		if claim >= 0 and claim <= EXACT_MAX and claim % 1 == 0 then return string.format("%.0f", claim) end
		return nil, "The token's subject is no whole number from 0 to " .. MEMBER_MAX .. ": write it as a text."
	end
	if type(claim) ~= "string" then return nil, "The token's subject must be a text or a number." end
	if #claim < 1 or #claim > MEMBER_BYTES_MAX then return nil, "The token's subject must have 1 to 128 bytes." end
	if claim:find("[%z\1-\31\127]") or claim:find("\194[\128-\159]") or claim:find("^ ") or claim:find(" $") then
		return nil, "The token's subject may have no control characters, and no spaces at its ends."
	end
	return claim
end

local function is_time(claim)
	return type(claim) == "number" and claim >= 0 and claim < SECONDS_MAX
end

-- `aud` is a text, or a list of them.
local function is_for(claim, audience)
	if type(claim) ~= "table" then return claim == audience end
	local found = false
	for _, one in pairs(claim) do
		if type(one) ~= "string" then return false end
		found = found or one == audience
	end
	return found and claim[1] ~= nil
end

-- Why the claims do not hold now, or nil.
local function wrong_time(claims, now_s)
	if claims.exp == nil then return "The token has no expiry (exp)." end
	if not is_time(claims.exp) then return "The token's expiry (exp) is no time in seconds since 1970." end
	if now_s >= math.floor(claims.exp) then return "The token has expired: sign in again." end
	if claims.nbf == nil then return nil end
	if not is_time(claims.nbf) then return "The token's start (nbf) is no time in seconds since 1970." end
	if now_s < math.floor(claims.nbf) then return "The token is not valid yet (nbf)." end
end

-- Why the claims are not for here, or nil.
local function wrong_place(claims, settings)
	if settings.token_issuer ~= "" then
		if claims.iss == nil then return "The token has no issuer (iss)." end
		if claims.iss ~= settings.token_issuer then return "The token is of another issuer (iss)." end
	end
	if settings.token_audience ~= "" then
		if claims.aud == nil then return "The token has no audience (aud)." end
		if not is_for(claims.aud, settings.token_audience) then return "The token is for another audience (aud)." end
	end
end

-- The buyer whom the token names, or nil and what is wrong with it; in the servers' order and words.
function token.verify(text, now_s)
	if #text > TOKEN_BYTES_MAX then return nil, "The token is longer than 2048 bytes." end
	local signed, signature = text:match("^(.*)%.([^.]*)$")
	local header, claims = (signed or ""):match("^([^.]*)%.([^.]*)$")
	if not header then return nil, "The token is not a JSON Web Token." end
	if not is_hs256(header) then return nil, "The token must be signed with HS256." end
	if not is_signed(signed, decode(signature) or "") then return nil, "The token's signature is wrong." end
	local json = decode(claims)
	if not json then return nil, "The token is not a JSON Web Token." end
	local known = json:find("^%s*{") and cjson.decode(json)
	if type(known) ~= "table" then return nil, "The token's claims are not a JSON object." end
	local settings = require("edge").settings
	local wrong = wrong_time(known, now_s) or wrong_place(known, settings)
	if wrong then return nil, wrong end
	return member_of(known[settings.token_claim])
end

return token
