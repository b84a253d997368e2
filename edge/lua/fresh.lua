-- Caches what was read for cache_ms at most, counted from before the read began, in two places: one table per worker,
-- with decoded values, and one dictionary for all workers. If there is nothing fresh, one request of a worker reads and
-- the others of that worker wait for it. With cache_ms 0 nothing is cached, but requests that come during a read share
-- the next read, which begins after they came. Must not: cache a failure.
local lrucache = require("resty.lrucache")
local semaphore = require("ngx.semaphore")
local settings = require("edge").settings

local ENTRIES_MAX = 2048
local WAIT_S_MAX = 0.25
local TIME_DIGITS = 13 -- of milliseconds since 1970

local fresh = {}
local shared = ngx.shared.edge_cache
local kept = assert(lrucache.new(ENTRIES_MAX))
local reading = {}
local turns = {}

-- Milliseconds; a clock that was set back makes everything stale.
local function age_of(read_at)
	local age = ngx.now() * 1000 - read_at
	return age >= 0 and age <= settings.cache_ms and age or nil
end

local function keep(key, read_at, text, decode)
	local entry = { read_at = read_at, value = decode(text) }
	kept:set(key, entry)
	return entry
end

local function look(key, decode)
	local entry = kept:get(key)
	local age = entry and age_of(entry.read_at)
	if age then return entry.value, age end
	local text = shared:get(key)
	local read_at = text and tonumber(text:sub(1, TIME_DIGITS))
	age = read_at and age_of(read_at)
	if age then return keep(key, read_at, text:sub(TIME_DIGITS + 1), decode).value, age end
end

local function read(key, load, decode, ...)
	ngx.update_time()
	local read_at = ngx.now() * 1000
	local text = load(...)
	if not text then return nil end
	if settings.cache_ms > 0 then
		-- A full dictionary drops the oldest; if that fails too, it only costs another read.
		shared:set(key, string.format("%013.0f", read_at) .. text, settings.cache_ms / 1000)
	end
	ngx.update_time()
	return keep(key, read_at, text, decode).value, ngx.now() * 1000 - read_at
end

-- After a read: the first of the requests that came meanwhile reads next.
local function hand_on(key, turn)
	local next = turn.next
	turns[key] = next and next.turn
	if next then next.lead:post(1) end
end

-- Reads without caching.
local function share(key, load, decode, ...)
	local turn = turns[key]
	local group = turn and turn.next
	if group then
		group.count = group.count + 1
		group.follow:wait(WAIT_S_MAX)
		return group.value, group.age
	end
	if turn then
		group = { turn = {}, lead = semaphore.new(), follow = semaphore.new(), count = 0 }
		turn.next = group
		if not group.lead:wait(WAIT_S_MAX) then
			-- The read before hangs: the requests that wait for this one fail as well.
			if turn.next == group then turn.next = nil end
			if group.count > 0 then group.follow:post(group.count) end
			return nil
		end
		turn = group.turn
	else
		turn = {}
		turns[key] = turn
	end
	local done, value, age = pcall(read, key, load, decode, ...)
	hand_on(key, turn)
	if group then
		if done then group.value, group.age = value, age end
		if group.count > 0 then group.follow:post(group.count) end
	end
	if not done then error(value) end
	return value, age
end

-- Returns the value and its age in ms, or nil if load(...) gave nil. decode makes the value from the text that load
-- gave; it must not fail.
function fresh.get(key, load, decode, ...)
	if settings.cache_ms == 0 then return share(key, load, decode, ...) end
	local value, age = look(key, decode)
	if value then return value, age end
	local waiting = reading[key]
	if waiting then
		waiting.count = waiting.count + 1
		waiting.turn:wait(WAIT_S_MAX)
		return look(key, decode)
	end
	waiting = { turn = semaphore.new(), count = 0 }
	reading[key] = waiting
	local done
	done, value, age = pcall(read, key, load, decode, ...)
	reading[key] = nil
	if waiting.count > 0 then waiting.turn:post(waiting.count) end
	if not done then error(value) end
	return value, age
end

return fresh
