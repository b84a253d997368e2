-- What the scripts of the gate find around them. The chunk is given what the simulation does for it (host: call, number, pack,
-- unpack), and returns the globals of scripts, and the function that runs one. An error of the host is raised where the script
-- has called it. Only after `return redis.call(...)` its text names no line: a tail call has taken the place of the script's.
local host = ...

local function text_of(value)
  return type(value) == 'number' and host.number(string.format('%.17g', value)) or value
end

local redis, struct = {}, {}

function redis.call(...)
  local count, args = select('#', ...), {...}
  for at = 1, count do args[at] = text_of(args[at]) end
  local reply = host.call(unpack(args, 1, count))
  if type(reply) == 'table' and reply.err then error(reply) end
  return reply
end

function struct.pack(...)
  local failure, packed = host.pack(...)
  if failure then error(failure, 2) end
  return packed
end

function struct.unpack(...)
  local numbers = {host.unpack(...)}
  if type(numbers[1]) == 'string' then error(numbers[1], 2) end
  return unpack(numbers)
end

local globals = setmetatable({
  redis = redis, struct = struct, string = string, math = math, table = table,
  tonumber = tonumber, ipairs = ipairs, unpack = unpack,
}, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
  __newindex = function() error('Attempt to modify a readonly table', 2) end,
})

-- The line of the script at which an error was raised. Without `debug`, it is what `error` writes before its message: level by
-- level, past functions of C, which have no line, and past those of this file.
local function line()
  for level = 3, 12 do
    local _, message = pcall(error, '', level)
    local line = string.match(message, '^user_script:(%d+): ')
    if line then return line end
  end
end

local function explain(failure)
  if type(failure) ~= 'table' then failure = {err = 'ERR ' .. tostring(failure)} end
  return {err = failure.err, line = line()}
end

return globals, function(script) return xpcall(script, explain) end
