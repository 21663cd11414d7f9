module redislock/rueidis/v2

go 1.21

require (
	github.com/redis/rueidis v1.0.40
	redislock/v2 v2.0.0-dev
)

require golang.org/x/sys v0.19.0 // indirect

replace redislock/v2 => ../
