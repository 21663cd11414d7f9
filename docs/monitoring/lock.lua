-- For prometheus-redis-exporter (-script /path/to/lock.lua): the counters of INFO lock, which INFO and INFO all don't
-- show. Each number becomes redis_script_values{key="lock_..."}, and each figure of a class of lock.classes
-- redis_script_values{key="lock_class_grants:market_*"}.
local all = {}
local info = redis.call("INFO", "lock")
for name, value in string.gmatch(info, "(lock_[%w_]+):(%d+)\r\n") do
  all[#all + 1] = name
  all[#all + 1] = value
end
for class, figures in string.gmatch(info, "lock_class_([^:\r\n]+):([%w_]+=[^\r\n]+)") do
  for name, value in string.gmatch(figures, "([%w_]+)=(%d+)") do
    all[#all + 1] = "lock_class_" .. name .. ":" .. class
    all[#all + 1] = value
  end
end
return all
