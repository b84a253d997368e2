-- What became of open reservations and claims, once the ledger has decided. Idempotent: a mark that is not open is left.
-- ARGV: run, epoch, then a verdict letter and an order hash each. Answers one letter each: y changed, n not, ? unknown.
--   p placed   x rejected, units kept   k claim kept   u claim undone
local NEXT = { p = {o = 's'}, x = {o = 'x'}, k = {c = 'l', d = 'a'}, u = {c = 'r', d = '-'} }

local why = closed()
if why then return answer(why) end
local asked = tonumber(ARGV[2])
if asked ~= epoch then return answer(asked < epoch and OLD or NOT_YET) end
local ids = {}
for i = 3, #ARGV do ids[i - 2] = string.sub(ARGV[i], 2) end
local marks = redis.call('HMGET', KEYS[2], unpack(ids))
local outcome, set, gone, removed, seen = {}, {}, {}, {}, {}
for i, id in ipairs(ids) do
  local mark, verdict = marks[i], string.sub(ARGV[i + 2], 1, 1)
  local to = mark and not seen[id] and NEXT[verdict][letter(mark)]
  outcome[i] = to and 'y' or mark and 'n' or '?'
  if to then
    seen[id] = true
    gone[#gone + 1] = id
    local body, units, buyer = parts(mark)
    if to == '-' then
      removed[#removed + 1] = id
    else
      set[#set + 1] = id
      set[#set + 1] = to .. body
    end
    if verdict == 'u' then take(-units, buyer) end
  end
end
if #gone > 0 then
  if #set > 0 then redis.call('HSET', KEYS[2], unpack(set)) end
  if #removed > 0 then redis.call('HDEL', KEYS[2], unpack(removed)) end
  redis.call('ZREM', KEYS[3], unpack(gone))
  write()
end
return answer(DONE, table.concat(outcome))
