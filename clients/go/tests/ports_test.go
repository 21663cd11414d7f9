package tests

import "sync"

// nextPort keeps the tests of this process apart.
var nextPort = struct {
	sync.Mutex
	taken map[int]bool
}{taken: map[int]bool{}}
