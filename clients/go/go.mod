module redislock/v2

go 1.21
