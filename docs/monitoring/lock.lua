-- For prometheus-redis-exporter (-script /path/to/lock.lua): what the module says in INFO lock, which INFO and INFO all
-- do not show. Each number becomes redis_script_values{key="lock_..."}.
local all = {}
for name, value in string.gmatch(redis.call("INFO", "lock"), "(lock_[%w_]+):(%d+)\r\n") do
  all[#all + 1] = name
  all[#all + 1] = value
end
return all
