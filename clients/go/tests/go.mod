module redislock/tests

go 1.21

require (
	github.com/gomodule/redigo v1.9.2
	github.com/redis/go-redis/v9 v9.17.3
	github.com/redis/rueidis v1.0.40
	redislock/goredis/v2 v2.0.0-dev
	redislock/redigo/v2 v2.0.0-dev
	redislock/rueidis/v2 v2.0.0-dev
	redislock/v2 v2.0.0-dev
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	golang.org/x/sys v0.19.0 // indirect
)

replace (
	redislock/goredis/v2 => ../goredis
	redislock/redigo/v2 => ../redigo
	redislock/rueidis/v2 => ../rueidis
	redislock/v2 => ../
)
