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
-- The ledger keeps buyers as signed 64-bit numbers.
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

-- The buyer's number in digits, from a JSON number or from text.
local function member_of(claim)
	if type(claim) == "number" and claim >= 0 and claim <= EXACT_MAX and claim % 1 == 0 then
		return string.format("%.0f", claim)
	end
	if type(claim) ~= "string" or not claim:find("^%d+$") or #claim > #MEMBER_MAX then return nil end
	if #claim == #MEMBER_MAX and claim > MEMBER_MAX then return nil end
	return claim
end

-- The number of the buyer that the token names, or nil and what is wrong with it.
function token.verify(text, now_s)
	if #text > TOKEN_BYTES_MAX then return nil, "The token is not a JSON Web Token." end
	local signed, signature = text:match("^(.*)%.([^.]*)$")
	local header, claims = (signed or ""):match("^([^.]*)%.([^.]*)$")
	if not header then return nil, "The token is not a JSON Web Token." end
	if not is_hs256(header) then return nil, "The token must be signed with HS256." end
	if not is_signed(signed, decode(signature) or "") then return nil, "The token's signature is wrong." end
	local known = cjson.decode(decode(claims) or "")
	local member = type(known) == "table" and member_of(known[require("edge").settings.token_claim])
	if not member or type(known.exp) ~= "number" then
		return nil, "The token must have an expiry and the buyer's number."
	end
	if now_s >= math.floor(known.exp) then return nil, "The token has expired: sign in again." end
	if known.nbf ~= nil and (type(known.nbf) ~= "number" or now_s < math.floor(known.nbf)) then
		return nil, "The token is not valid yet."
	end
	return member
end

return token
