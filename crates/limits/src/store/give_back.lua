-- The rule of `policy::give_back`, for one attempt of KEYS[1].
-- ARGV: window (microseconds), attempts per mark, the time under which the attempt counts.
-- `attempt.lua` describes the state. Its expiry stays.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window, per_mark, at = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local state = redis.call('GET', KEYS[1])
if not state or string.sub(state, 1, 1) ~= 'C' then
  return 0
end
local last = tonumber(string.sub(state, 2, 17))
local ttl = redis.call('PTTL', KEYS[1])
if ttl <= 0 or last + window <= now or last >= now + window or at > last then
  return 0
end
local loose = math.min(tonumber(string.sub(state, 18, 27)), per_mark - 1)
local marks = string.sub(state, 28)

-- The first mark that is not earlier.
local own = 1
while own <= #marks and tonumber(string.sub(marks, own, own + 15)) < at do
  own = own + 16
end
local is_marked = own <= #marks and (per_mark > 1 or tonumber(string.sub(marks, own, own + 15)) == at)
if loose == 0 and not is_marked then
  return 0
end
if loose > 0 then
  loose = loose - 1
  marks = marks .. string.format('%016d', last)
else
  loose = per_mark - 1
end
marks = string.sub(marks, 1, own - 1) .. string.sub(marks, own + 16)
redis.call('SET', KEYS[1], string.format('C%016d%010d', last, loose) .. marks, 'PX', ttl)
return 0
