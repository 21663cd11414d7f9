package tests

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"redislock/v2"
)

// replicaOf starts a replica, and waits until it has caught up.
func replicaOf(t *testing.T, master *server) *server {
	master.do("CONFIG", "SET", "repl-diskless-sync-delay", 0)
	replica := start(t, "--replicaof", "127.0.0.1", strconv.Itoa(master.port))
	eventually(t, "the replica is online", func() bool {
		info, _ := master.do("INFO", "replication").(string)
		return strings.Contains(info, "state=online")
	})
	return replica
}

func TestWithoutTheModuleReplicasAcknowledgeAGrantOrNothingIsLeftOfIt(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startBare(t)
		replica := replicaOf(t, s)
		locks := k.locks(t, s.address(), redislock.Replicas(1))
		hold := lock(t, locks, "market", minute)
		if owner := replica.text("market"); owner != hold.Owner() {
			t.Error("the replica has not got it:", owner)
		}
		again, err := locks.TryLock(background, "shop", minute, redislock.Replicas(2))
		if !errors.Is(err, redislock.ErrNoReplicas) {
			t.Error(again, err)
		}
		replica.signal(syscall.SIGSTOP)
		defer replica.signal(syscall.SIGCONT)
		if _, err := locks.TryLock(background, "bank", minute); !errors.Is(err, redislock.ErrNoReplicas) {
			t.Error(err)
		}
		eventually(t, "both are released", func() bool { return s.text("shop") == "" && s.text("bank") == "" })
		release(t, hold)
	})
}

func TestWithoutTheModuleARetryWritesWhatTheReplicasAcknowledge(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startBare(t)
		replica := replicaOf(t, s)
		s.do("SET", "market", "me", "PX", minute.Milliseconds()*10) // as by a request whose reply was lost
		replica.signal(syscall.SIGSTOP)
		defer replica.signal(syscall.SIGCONT)
		locks := k.locks(t, s.address(), redislock.Replicas(1), redislock.Owner("me"))
		if _, err := locks.TryLock(background, "market", minute); !errors.Is(err, redislock.ErrNoReplicas) {
			t.Error("nothing was acknowledged", err)
		}
	})
}

func TestARenewalThatWaitsForReplicasDoesNotDelayOthers(t *testing.T) {
	each(t, func(t *testing.T, k kind) {
		s := startBare(t)
		replica := replicaOf(t, s)
		locks := k.locks(t, s.address())
		hold, err := locks.TryLock(background, "market", minute, redislock.Replicas(1))
		if err != nil {
			t.Fatal(err)
		}
		replica.signal(syscall.SIGSTOP)
		defer replica.signal(syscall.SIGCONT)
		renewed := make(chan error, 1)
		go func() { renewed <- hold.Refresh(background, minute) }()
		eventually(t, "it waits", func() bool {
			info, _ := s.do("INFO", "clients").(string)
			return strings.Contains(info, "blocked_clients:1")
		})
		release(t, lock(t, locks, "shop", minute))
		select {
		case err := <-renewed:
			t.Error("the others waited for the renewal, or it for nothing", err)
		default:
		}
		if err := <-renewed; !errors.Is(err, redislock.ErrNoReplicas) || !hold.Held() {
			t.Error(err)
		}
	})
}
