module redislock/tests/peers

go 1.26.0

require (
	github.com/bsm/redislock v0.9.4
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/gomodule/redigo v1.9.3
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/redis/rueidis/rueidiscompat v1.0.79
	golang.org/x/sync v0.24.0
	redislock/goredis/v2 v2.0.0-dev
	redislock/redigo/v2 v2.0.0-dev
	redislock/rueidis/v2 v2.0.0-dev
	redislock/v2 v2.0.0-dev
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	redislock/goredis/v2 => ../../goredis
	redislock/redigo/v2 => ../../redigo
	redislock/rueidis/v2 => ../../rueidis
	redislock/v2 => ../../
)
