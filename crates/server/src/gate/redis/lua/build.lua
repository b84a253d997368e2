-- Builds a gate in steps: begin, marks and buyers in chunks, finish. Every step can be repeated, and any failure is
-- answered by beginning again: nothing is sold before finish. ARGV: run, step, epoch, ...
local run, step, asked = ARGV[1], ARGV[2], tonumber(ARGV[3])

if step == 'begin' then
  -- Only a closed gate is replaced: one that sells was built by somebody else meanwhile.
  if read() then
    if format() > FORMAT then return answer(OTHER_FORMAT) end
    local sells = (flag() == 'O' or flag() == 'o') and string.sub(gate, 1, 40) == run
    if epoch > asked or sells or (epoch == asked and flag() ~= 'B') then return answer(OLD) end
  end
  local version = gate and redis.call('HGET', KEYS[1], 'version') or 0
  local terms = gate and string.sub(gate, 51, 70) or struct.pack('>I8I8I4', 0, 0, 0)
  local phase = gate and string.sub(gate, 42, 42) or 'p'
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
  epoch, seq, avail = asked, 0, 0
  gate = run .. 'B' .. phase .. struct.pack('>I8', epoch) .. terms .. string.char(FORMAT)
  redis.call('HSET', KEYS[1], 'gate', gate, 'seq', seq, 'avail', avail, 'version', version)
  return answer(DONE)
end

if not read() then return answer(LOST) end
if format() ~= FORMAT then return answer(OTHER_FORMAT) end
if epoch ~= asked then return answer(OLD) end
if string.sub(gate, 1, 40) ~= run then return answer(OTHER_RUN) end
if flag() ~= 'B' then return answer(step == 'finish' and flag() == 'O' and ALREADY or FENCED) end
if step == 'marks' or step == 'buyers' then
  local pairs_of = {}
  for i = 4, #ARGV do pairs_of[i - 3] = ARGV[i] end
  redis.call('HSET', step == 'marks' and KEYS[2] or KEYS[4], unpack(pairs_of))
  return answer(DONE)
end

-- finish: avail, limit, version, starts, ends, phase. A sale's state that came in during the build is newer.
local version, phase = tonumber(ARGV[6]), ARGV[9]
local first, last, units = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[5])
local newer = tonumber(redis.call('HGET', KEYS[1], 'version'))
if newer > version then
  version, phase, first, last, units = newer, string.sub(gate, 42, 42), starts, ends, limit
end
seq, avail = seq + 1, tonumber(ARGV[4])
gate = run .. 'O' .. phase .. struct.pack('>I8I8I8I4', epoch, first, last, units) .. string.char(FORMAT)
redis.call('HSET', KEYS[1], 'gate', gate, 'seq', seq, 'avail', avail, 'version', version)
return answer(DONE)
