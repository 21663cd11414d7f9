-- For prometheus-redis-exporter (-script /path/to/lock.lua): the counters of INFO lock, which INFO and INFO all don't
-- show. Each number becomes redis_script_values{key="lock_..."}.
local all = {}
for name, value in string.gmatch(redis.call("INFO", "lock"), "(lock_[%w_]+):(%d+)\r\n") do
  all[#all + 1] = name
  all[#all + 1] = value
end
return all
