-- The rule of `policy::decide`, for one attempt of KEYS[1].
-- ARGV: window, block (microseconds), most attempts, attempts per mark, most marks.
-- The state is text: B and the end of the block, or C, the time of the last attempt, the attempts since the last mark and
-- the marks. A time has 16 digits, which doubles hold exactly until the year 2255. Returns the wait, 0 if admitted,
-- and the time under which the attempt counts.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window, block, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local per_mark, most_marks = tonumber(ARGV[4]), tonumber(ARGV[5])

local function keep(state, ends)
  redis.call('SET', KEYS[1], state, 'PX', string.format('%d', math.max(1, math.ceil((ends - now) / 1000))))
end

local last, loose, marks = now, 0, ''
local state = redis.call('GET', KEYS[1])
local kind = state and string.sub(state, 1, 1)
if kind == 'B' then
  local ends = tonumber(string.sub(state, 2, 17))
  if ends > now + block then
    -- The clock was set back.
    ends = now + block
    keep(string.format('B%016d', ends), ends)
  end
  if ends > now then
    return {ends - now, 0}
  end
elseif kind == 'C' then
  local known = tonumber(string.sub(state, 2, 17))
  if known + window > now and known < now + window then
    last = math.max(known, now)
    loose = math.min(tonumber(string.sub(state, 18, 27)), per_mark - 1)
    marks = string.sub(state, 28)
    local back = math.floor((most - 1 - loose) / per_mark)
    local start = #marks - 16 * (back + 1)
    if start >= 0 and tonumber(string.sub(marks, start + 1, start + 16)) + window > last then
      keep(string.format('B%016d', now + block), now + block)
      return {block, 0}
    end
  end
elseif state then
  return redis.error_reply('ERR the key holds something that no limiter wrote')
end

loose = loose + 1
if loose == per_mark then
  loose = 0
  marks = string.sub(marks .. string.format('%016d', last), -16 * most_marks)
end
keep(string.format('C%016d%010d', last, loose) .. marks, last + window)
return {0, last}
