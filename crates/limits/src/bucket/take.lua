-- The rule of `Rate::take`, for one token of KEYS[1]. ARGV: microseconds per token, microseconds from empty to full.
-- The state is the time at which the bucket is full. Returns whether there was a token, and how long until it is full.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, span = tonumber(ARGV[1]), tonumber(ARGV[2])
local stored = tonumber(redis.call('GET', KEYS[1]) or now)
local known = math.max(now, math.min(stored, now + span))
local admitted = known + interval <= now + span
local full_at = admitted and known + interval or known
if full_at ~= stored then
  local ttl = math.max(1, math.ceil((full_at - now) / 1000))
  redis.call('SET', KEYS[1], string.format('%d', full_at), 'PX', string.format('%d', ttl))
end
return { admitted and 1 or 0, full_at - now }
