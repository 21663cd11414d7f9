module redislock/redigo/v2

go 1.21

require (
	github.com/gomodule/redigo v1.9.2
	redislock/v2 v2.0.0-dev
)

replace redislock/v2 => ../
