package redislock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redislock/v2"
)

// scripted replies to each command by its name, and writes down what was sent.
type scripted struct {
	mu      sync.Mutex
	replies map[string][]any // the last one stays
	sent    []string
	at      []time.Time
}

func (s *scripted) Do(_ context.Context, args ...any) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.at = append(s.sent, strings.TrimSpace(fmt.Sprintln(args...))), append(s.at, time.Now())
	replies := s.replies[args[0].(string)]
	if len(replies) == 0 {
		return nil, redislock.ServerError("ERR unknown command '" + args[0].(string) + "', with args beginning with: ")
	}
	if len(replies) > 1 {
		s.replies[args[0].(string)] = replies[1:]
	}
	if err, ok := replies[0].(error); ok {
		return nil, err
	}
	return replies[0], nil
}

func (s *scripted) count(word string) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sent := range s.sent {
		if strings.Contains(sent, word) {
			count++
		}
	}
	return count
}

func replying(replies map[string][]any) (*redislock.Client, *scripted) {
	server := &scripted{replies: replies}
	return redislock.New(server), server
}

var background = context.Background()

func TestWhatMakesNoSenseIsRefusedBeforeAnythingIsSent(t *testing.T) {
	locks, server := replying(nil)
	long := strings.Repeat("x", 1025)
	for what, of := range map[string]struct {
		keys    []string
		ttl     time.Duration
		options []redislock.Option
	}{
		"no ttl":                {[]string{"k"}, 0, nil},
		"a negative ttl":        {[]string{"k"}, -time.Second, nil},
		"seconds by mistake":    {[]string{"k"}, 10, nil},
		"an endless ttl":        {[]string{"k"}, math.MaxInt64, nil},
		"no key":                {nil, time.Second, nil},
		"an empty key":          {[]string{"k", ""}, time.Second, nil},
		"a limit of 0":          {[]string{"k"}, time.Second, []redislock.Option{redislock.Limit(0)}},
		"shared and limited":    {[]string{"k"}, time.Second, []redislock.Option{redislock.Limit(1), redislock.Shared()}},
		"a negative MaxQueue":   {[]string{"k"}, time.Second, []redislock.Option{redislock.MaxQueue(-1)}},
		"a group and a colon":   {[]string{"k"}, time.Second, []redislock.Option{redislock.Limit(1), redislock.Fair("ann:b")}},
		"no group":              {[]string{"k"}, time.Second, []redislock.Option{redislock.Limit(1), redislock.Fair("")}},
		"a long group":          {[]string{"k"}, time.Second, []redislock.Option{redislock.Limit(1), redislock.Fair(long)}},
		"fair without a limit":  {[]string{"k"}, time.Second, []redislock.Option{redislock.Fair("ann")}},
		"fair with two keys":    {[]string{"k", "l"}, time.Second, []redislock.Option{redislock.Limit(1), redislock.Fair("ann")}},
		"per without a group":   {[]string{"k"}, time.Second, []redislock.Option{redislock.Limit(1), redislock.Per(1)}},
		"per 0":                 {[]string{"k"}, time.Second, []redislock.Option{redislock.Limit(1), redislock.Fair("ann"), redislock.Per(0)}},
		"less than no replicas": {[]string{"k"}, time.Second, []redislock.Option{redislock.Replicas(-1)}},
		"65 replicas":           {[]string{"k"}, time.Second, []redislock.Option{redislock.Replicas(65)}},
		"no pipelines":          {[]string{"k"}, time.Second, []redislock.Option{redislock.Replicas(1)}},
		"RenewFor nothing":      {[]string{"k"}, time.Second, []redislock.Option{redislock.RenewFor(0)}},
		"no pause":              {[]string{"k"}, time.Second, []redislock.Option{redislock.RetryInterval(0)}},
		"the owner *":           {[]string{"k"}, time.Second, []redislock.Option{redislock.Owner("*")}},
		"the owner of a share":  {[]string{"k"}, time.Second, []redislock.Option{redislock.Owner("@lock:shared")}},
		"no owner":              {[]string{"k"}, time.Second, []redislock.Option{redislock.Owner("")}},
		"a long owner":          {[]string{"k"}, time.Second, []redislock.Option{redislock.Owner(long)}},
		"a long prefix":         {[]string{"k"}, time.Second, []redislock.Option{redislock.OwnerPrefix(long[:988])}},
		"no prefix":             {[]string{"k"}, time.Second, []redislock.Option{redislock.OwnerPrefix("")}},
	} {
		if _, err := locks.LockAll(background, of.keys, of.ttl, of.options...); !errors.Is(err, redislock.ErrInvalid) {
			t.Error(what, err)
		}
	}
	if len(server.sent) > 0 {
		t.Error(server.sent)
	}
}

func TestALockThatOthersHoldIsNotObtained(t *testing.T) {
	locks, _ := replying(map[string][]any{"LOCK.ACQUIRE": {int64(0)}})
	if _, err := locks.TryLock(background, "market", time.Second); err != redislock.ErrNotObtained {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	_, err := locks.Lock(ctx, "market", time.Second)
	if !errors.Is(err, redislock.ErrNotObtained) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestAHoldSaysHowItEnded(t *testing.T) {
	locks, _ := replying(map[string][]any{"LOCK.ACQUIRE": {int64(7)}, "LOCK.RELEASE": {int64(1)}})
	hold, err := locks.Lock(background, "market", time.Minute)
	if err != nil || !hold.Held() || hold.Err() != nil || hold.TTL() > time.Minute || hold.TTL() < time.Minute/2 {
		t.Fatal(err)
	}
	if err := hold.Release(background); err != nil {
		t.Error(err)
	}
	if <-hold.Done(); hold.Held() || !errors.Is(hold.Err(), redislock.ErrReleased) || hold.TTL() != 0 {
		t.Error(hold.Err(), hold.TTL())
	}
	if err := hold.Release(background); !errors.Is(err, redislock.ErrReleased) {
		t.Error(err)
	}
	hold, err = locks.Lock(background, "market", 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	work, cancel := hold.Context(background)
	defer cancel()
	<-work.Done()
	if <-hold.Done(); hold.Held() || !errors.Is(hold.Err(), redislock.ErrLost) || !errors.Is(context.Cause(work), redislock.ErrLost) {
		t.Error(hold.Err(), context.Cause(work))
	}
}

func TestThatTheModuleIsMissingIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	server := &scripted{replies: map[string][]any{"EVAL": {int64(1)}}}
	locks := redislock.New(server, redislock.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	for i := 0; i < 2; i++ {
		if _, err := locks.TryLock(background, "market", time.Minute); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(log.String(), "module") || strings.Count(log.String(), "\n") != 1 {
		t.Error(log.String())
	}
}

func TestACodeWordIsAnErrorAndNeverRetried(t *testing.T) {
	for _, code := range []redislock.ServerError{
		redislock.ErrDeadlock, redislock.ErrTooComplex, redislock.ErrQueueFull, redislock.ErrReplaced,
		redislock.ErrOneWait, redislock.ErrNoUpgrade, redislock.ErrNoReplicas,
	} {
		words := code + " and why"
		locks, server := replying(map[string][]any{"LOCK.ACQUIRE": {words}, "LOCK.RENEW": {words}, "LOCK.RELEASE": {int64(0)}})
		_, err := locks.Lock(background, "market", time.Second)
		if !errors.Is(err, code) || err.Error() != string(words) || server.count("ACQUIRE") != 1 {
			t.Error(code, err, server.sent)
		}
		if errors.Is(err, redislock.ServerError("OTHER")) || errors.Is(err, redislock.ErrNotObtained) {
			t.Error(code, "is taken for another")
		}
	}
}

func TestAWaitThatWasTakenOverIsNotWithdrawn(t *testing.T) {
	replaced := redislock.ErrReplaced + " a later request of this owner waits"
	script := func() map[string][]any {
		return map[string][]any{"LOCK.ACQUIRE": {int64(-1), replaced}, "LOCK.RELEASE": {int64(0)}}
	}
	locks, server := replying(script())
	if _, err := locks.Lock(background, "market", time.Second, redislock.Owner("order-7")); !errors.Is(err, redislock.ErrReplaced) {
		t.Error(err)
	}
	if err := locks.Wait(background); err != nil || server.count("RELEASE") != 0 {
		t.Error("that would end the later request's wait", server.sent)
	}
	// A fresh owner is that of one request, so nothing else may wait by it.
	locks, server = replying(script())
	if _, err := locks.Lock(background, "market", time.Second); !errors.Is(err, redislock.ErrReplaced) {
		t.Error(err)
	}
	if err := locks.Wait(background); err != nil || server.count("RELEASE") != 1 {
		t.Error(server.sent)
	}
}

func TestAHoldWhoseOwnerWasGrantedAnotherTokenIsLost(t *testing.T) {
	locks, server := replying(map[string][]any{"LOCK.ACQUIRE": {int64(7), int64(7), int64(9)}, "LOCK.GUARD": {"OK"}, "LOCK.RELEASE": {int64(1)}})
	take := func(key string) *redislock.Hold {
		hold, err := locks.Lock(background, key, time.Minute, redislock.Owner("order-7"))
		if err != nil {
			t.Fatal(err)
		}
		return hold
	}
	first, again, other := take("market"), take("market"), take("elsewhere")
	if !first.Held() || !again.Held() {
		t.Error("the same token is the same grant", first.Err(), again.Err())
	}
	later := take("market")
	if _, err := first.Guard(background, "SET", "price", 5); !errors.Is(err, redislock.ErrLost) || server.count("GUARD") != 0 {
		t.Error("the server would take it for the later one", err)
	}
	if again.Held() || !later.Held() || !other.Held() {
		t.Error(again.Err(), later.Err(), other.Err())
	}
	if err := first.Release(background); !errors.Is(err, redislock.ErrLost) || server.count("RELEASE") != 0 {
		t.Error("that would end the later hold", err)
	}
	if err := later.Release(background); err != nil {
		t.Error(err)
	}
}

func TestAnOwnerThatIsStillBeingReleasedIsRefused(t *testing.T) {
	locks, _ := replying(map[string][]any{"LOCK.ACQUIRE": {int64(7)}, "LOCK.RELEASE": {errors.New("EOF"), errors.New("EOF"), int64(1)}})
	hold, err := locks.Lock(background, "market", time.Minute, redislock.Owner("order-7"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	_ = hold.Release(ctx)
	if _, err := locks.TryLock(background, "market", time.Minute, redislock.Owner("order-7")); !errors.Is(err, redislock.ErrInvalid) {
		t.Error("the release would end its hold", err)
	}
	if _, err := locks.TryLock(background, "market", time.Minute); err != nil {
		t.Error(err)
	}
	_ = locks.Wait(background)
	if _, err := locks.TryLock(background, "market", time.Minute, redislock.Owner("order-7")); err != nil {
		t.Error(err)
	}
}

func TestARefusalAfterALostReplyIsWithdrawn(t *testing.T) {
	locks, server := replying(map[string][]any{
		"LOCK.ACQUIRE": {errors.New("EOF"), redislock.ErrQueueFull + " 1 waiting"}, "LOCK.RELEASE": {int64(1)},
	})
	if _, err := locks.Lock(background, "market", time.Millisecond); !errors.Is(err, redislock.ErrQueueFull) {
		t.Error(err)
	}
	if err := locks.Wait(background); err != nil || server.count("RELEASE") == 0 {
		t.Error("the lost request may have been granted", server.sent)
	}
}

func TestAPlaceIsAskedForWithTheLeaseThatTheServerAllows(t *testing.T) {
	for _, said := range []string{
		"ERR lease must be 1 to 1500 milliseconds", // 1.0
		`ERR lease must be 1 to 1500 milliseconds (lock.max-place-ttl): the time after QUEUE is "5000"`,
	} {
		locks, server := replying(map[string][]any{
			"LOCK.ACQUIRE": {redislock.ServerError(said), int64(7)}, "LOCK.RELEASE": {int64(1)},
		})
		hold, err := locks.Lock(background, "market", time.Second)
		if err != nil || hold.Fence() != 7 || server.count("QUEUE 1500") != 1 {
			t.Error(said, err, server.sent)
		}
	}
}

func TestAFailoverIsRetried(t *testing.T) {
	for _, code := range []string{"UNBLOCKED", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"} {
		locks, server := replying(map[string][]any{"LOCK.ACQUIRE": {redislock.ServerError(code + " for now"), int64(7)}})
		if _, err := locks.TryLock(background, "market", time.Second); err != nil || server.count("ACQUIRE") != 2 {
			t.Error(code, err)
		}
	}
}

func TestARenewalThatIsRefusedIsSentAgainUntilTheHoldEnds(t *testing.T) {
	few := redislock.ErrNoReplicas + " lock"
	locks, _ := replying(map[string][]any{"LOCK.ACQUIRE": {int64(7)}, "LOCK.RENEW": {few, errors.New("EOF"), few, int64(1)}})
	hold, err := locks.Lock(background, "market", 3*time.Second, redislock.Renew())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3500 * time.Millisecond)
	if !hold.Held() {
		t.Error(hold.Err())
	}
	if err := hold.Release(background); err == nil {
		t.Error("there is no LOCK.RELEASE, nor EVAL")
	}

	locks, _ = replying(map[string][]any{"LOCK.ACQUIRE": {int64(7)}, "LOCK.RENEW": {few}})
	hold, err = locks.Lock(background, "market", 300*time.Millisecond, redislock.Renew())
	if err != nil {
		t.Fatal(err)
	}
	if <-hold.Done(); !errors.Is(hold.Err(), redislock.ErrLost) || !errors.Is(hold.Err(), redislock.ErrNoReplicas) {
		t.Error("why it was lost is not said:", hold.Err())
	}
}

func TestARefreshWithoutAReplyMayHaveShortenedTheHold(t *testing.T) {
	locks, _ := replying(map[string][]any{"LOCK.ACQUIRE": {int64(7)}, "LOCK.RENEW": {errors.New("EOF")}})
	hold, err := locks.Lock(background, "market", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
	defer cancel()
	if err := hold.Refresh(ctx, 5*time.Second); err == nil || hold.TTL() > 5*time.Second {
		t.Error(err, hold.TTL())
	}
}

func TestCommandsNameOneKeyAndCountSeveral(t *testing.T) {
	locks, server := replying(map[string][]any{"LOCK.ACQUIRE": {int64(7)}, "LOCK.MACQUIRE": {int64(8)}, "LOCK.MRELEASE": {int64(2)}})
	o := redislock.Owner("me")
	_, _ = locks.TryLock(background, "a", 1500*time.Microsecond, o, redislock.Limit(3))
	hold, err := locks.LockAll(background, []string{"{a}x", "{a}y", "{a}x"}, time.Second, o, redislock.Shared(), redislock.MaxQueue(5))
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Release(background); err != nil {
		t.Error(err)
	}
	for i, want := range []string{
		"LOCK.ACQUIRE a me 2 LIMIT 3",
		"LOCK.MACQUIRE 2 {a}x {a}y me 1000 QUEUE 3000 SHARED MAXQUEUE 5",
		"LOCK.MRELEASE 2 {a}x {a}y me",
	} {
		if server.sent[i] != want {
			t.Error(server.sent[i])
		}
	}
}

func TestAnEndedContextSendsNothing(t *testing.T) {
	locks, server := replying(nil)
	why := errors.New("the shop has closed")
	ctx, cancel := context.WithCancelCause(background)
	cancel(why)
	_, err := locks.Lock(ctx, "market", time.Second)
	if !errors.Is(err, why) || len(server.sent) > 0 {
		t.Error(err, server.sent)
	}
}

func TestACauseDoesNotHideThatTheContextWasCancelled(t *testing.T) {
	locks, _ := replying(map[string][]any{"LOCK.ACQUIRE": {int64(7), nil}})
	hold, err := locks.Lock(background, "market", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("the shop has closed")
	ctx, cancel := context.WithCancelCause(background)
	cancel(why)
	for what, call := range map[string]func() error{
		"Lock":    func() error { _, err := locks.Lock(ctx, "market", time.Minute); return err },
		"TryLock": func() error { _, err := locks.TryLock(ctx, "market", time.Minute); return err },
		"Release": func() error { return hold.Release(ctx) },
	} {
		if err := call(); !errors.Is(err, why) || !errors.Is(err, context.Canceled) {
			t.Error(what, err)
		}
	}
}

func TestWithoutTheModuleAnOwnerThatHoldsALockAnewDoesNotLoseItByAnEarlierHoldsRelease(t *testing.T) {
	locks, server := replying(map[string][]any{"EVAL": {int64(1)}})
	take := func(ttl time.Duration) *redislock.Hold {
		hold, err := locks.Lock(background, "market", ttl, redislock.Owner("order-7"))
		if err != nil {
			t.Fatal(err)
		}
		return hold
	}
	first := take(100 * time.Millisecond)
	<-first.Done()
	later := take(time.Minute)
	before := server.count("EVAL")
	if err := first.Release(background); !errors.Is(err, redislock.ErrLost) {
		t.Error(err)
	}
	_ = locks.Wait(background)
	if server.count("EVAL") != before || !later.Held() {
		t.Error("the server would take it for the later hold's", server.sent, later.Err())
	}
	if again := take(time.Minute); !later.Held() || !again.Held() {
		t.Error("without a number it is not known to be another grant", later.Err(), again.Err())
	}
}

func TestAReplyThatComesLateEndsNoLaterGrantOfItsOwner(t *testing.T) {
	locks, _ := replying(map[string][]any{"LOCK.ACQUIRE": {int64(9), int64(7)}})
	later, err := locks.Lock(background, "market", time.Minute, redislock.Owner("order-7"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locks.Lock(background, "market", time.Minute, redislock.Owner("order-7")); err != nil || !later.Held() {
		t.Error(err, later.Err())
	}
}

func TestAWaiterWithNeitherALockNorAPlaceIsWokenByAReleaseOfItsProcess(t *testing.T) {
	refused := make([]any, 9)
	locks, server := replying(map[string][]any{"LOCK.ACQUIRE": append(append([]any{int64(7)}, refused...), int64(8)), "LOCK.RELEASE": {int64(1)}})
	first, err := locks.Lock(background, "market", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan error)
	go func() {
		_, err := locks.Lock(background, "market", time.Minute, redislock.RetryInterval(time.Hour))
		woken <- err
	}()
	for server.count("ACQUIRE") < 1+len(refused) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond) // it pauses for two seconds now
	if err := first.Release(background); err != nil {
		t.Error(err)
	}
	released := time.Now()
	if err := <-woken; err != nil || time.Since(released) > time.Second {
		t.Error(err, time.Since(released))
	}
}

// slow lets each reply take longer than a very short ttl.
type slow struct{ *scripted }

func (s slow) Do(ctx context.Context, args ...any) (any, error) {
	time.Sleep(3 * time.Millisecond)
	return s.scripted.Do(ctx, args...)
}

func TestATTLShorterThanTheWayToTheServerIsNotAskedForWithoutAPause(t *testing.T) {
	server := &scripted{replies: map[string][]any{"LOCK.ACQUIRE": {int64(7)}, "LOCK.RELEASE": {int64(1)}}}
	locks := redislock.New(slow{server})
	ctx, cancel := context.WithTimeout(background, time.Second)
	defer cancel()
	if _, err := locks.Lock(ctx, "market", time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if asked := server.count("ACQUIRE"); asked > 40 {
		t.Error(asked, "requests in a second")
	}
}

// pipelining replies to commands in a pipeline as it replies to each. The first words of those are in pipelines.
type pipelining struct {
	*scripted
	pipelines []string
}

func (p *pipelining) Pipeline(ctx context.Context, commands ...[]any) ([]redislock.Reply, error) {
	var replies []redislock.Reply
	var names []string
	for _, args := range commands {
		value, err := p.Do(ctx, args...)
		replies, names = append(replies, redislock.Reply{Value: value, Err: err}), append(names, args[0].(string))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pipelines = append(p.pipelines, strings.Join(names, " "))
	return replies, nil
}

func inPipelines(replies map[string][]any) (*redislock.Client, *pipelining) {
	server := &pipelining{scripted: &scripted{replies: replies}}
	return redislock.New(server), server
}

func TestAGroupStandsBeforeTheOwner(t *testing.T) {
	locks, server := replying(map[string][]any{"LOCK.ACQUIRE": {int64(7)}})
	fair := []redislock.Option{redislock.Limit(10), redislock.Fair("ann")}
	first, err := locks.TryLock(background, "reports", time.Second, append(fair, redislock.OwnerPrefix("web-3"))...)
	if err != nil || !strings.HasPrefix(first.Owner(), "ann:web-3:") {
		t.Fatal(err, first)
	}
	_, err = locks.Lock(background, "reports", time.Second, append(fair, redislock.Owner("me"), redislock.Per(2), redislock.MaxQueue(5))...)
	if err != nil || server.sent[0] != "LOCK.ACQUIRE reports "+first.Owner()+" 1000 LIMIT 10 FAIR" ||
		server.sent[1] != "LOCK.ACQUIRE reports ann:me 1000 QUEUE 3000 LIMIT 10 FAIR PER 2 MAXQUEUE 5" {
		t.Error(err, server.sent)
	}
}

func TestWhatWaitsForReplicasHasAConnectionOfItsOwn(t *testing.T) {
	locks, server := inPipelines(map[string][]any{"LOCK.ACQUIRE": {int64(7)}, "LOCK.RENEW": {int64(1)}})
	me := redislock.Owner("me")
	hold, err := locks.TryLock(background, "market", time.Second, me, redislock.Replicas(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Refresh(background, 2*time.Second); err != nil {
		t.Error(err)
	}
	if _, err := locks.TryLock(background, "shop", time.Second, me); err != nil {
		t.Error(err)
	}
	want := []string{"LOCK.ACQUIRE market me 1000 REPLICAS 2", "LOCK.RENEW market me 2000 REPLICAS 2", "LOCK.ACQUIRE shop me 1000"}
	if !slices.Equal(server.sent, want) || !slices.Equal(server.pipelines, []string{"LOCK.ACQUIRE", "LOCK.RENEW"}) {
		t.Error(server.sent, server.pipelines)
	}
}

func TestAPlaceIsClaimedByOneRequestAndItsTTLCountsFromTheOneBefore(t *testing.T) {
	locks, server := inPipelines(map[string][]any{"LOCK.ACQUIRE": {int64(-2), int64(-1), int64(7)}})
	hold, err := locks.Lock(background, "market", time.Minute, redislock.Replicas(1))
	if err != nil {
		t.Fatal(err)
	}
	if now := time.Now(); now.Add(hold.TTL()).After(server.at[1].Add(time.Minute)) {
		t.Error("replicas may have had it since", server.at[1], hold.TTL())
	}
	if len(server.sent) != 3 || server.count("QUEUE 3000 REPLICAS 1") != 3 || len(server.pipelines) > 0 {
		t.Error(server.sent, server.pipelines)
	}
}

func TestAGrantOfWhichMuchMayBeOverIsRetried(t *testing.T) {
	locks, server := inPipelines(map[string][]any{"LOCK.ACQUIRE": {int64(-1), int64(7)}})
	hold, err := locks.Lock(background, "market", 50*time.Millisecond, redislock.Replicas(1))
	if err != nil || hold.Fence() != 7 {
		t.Fatal(err)
	}
	if server.count("QUEUE") != 2 || server.count("REPLICAS 1") < 3 || len(server.pipelines) == 0 {
		t.Error(server.sent, server.pipelines)
	}
}

func TestAGrantThatTooFewReplicasAcknowledgedIsReleased(t *testing.T) {
	few := redislock.ErrNoReplicas + " lock was not acknowledged by 2 replicas in time"
	locks, server := inPipelines(map[string][]any{"LOCK.ACQUIRE": {few}, "LOCK.RELEASE": {int64(0)}})
	if _, err := locks.Lock(background, "market", time.Minute, redislock.Replicas(2)); err != few {
		t.Error(err)
	}
	if err := locks.Wait(background); err != nil || server.count("ACQUIRE") != 1 || server.count("RELEASE") != 1 {
		t.Error(err, server.sent)
	}
}

func TestARenewalThatTooFewReplicasAcknowledgedMayHaveShortenedTheHold(t *testing.T) {
	few := redislock.ErrNoReplicas + " lock was not acknowledged by 1 replicas in time"
	locks, _ := inPipelines(map[string][]any{"LOCK.ACQUIRE": {int64(7)}, "LOCK.RENEW": {few}})
	hold, err := locks.TryLock(background, "market", time.Minute, redislock.Replicas(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Refresh(background, 5*time.Second); err != few || hold.TTL() > 5*time.Second {
		t.Error(err, hold.TTL())
	}
}

func TestWithoutTheModuleWaitFollowsInTheSamePipeline(t *testing.T) {
	locks, server := inPipelines(map[string][]any{"EVAL": {int64(1)}, "WAIT": {int64(2), int64(1), redislock.ServerError("NOPERM no"), int64(1)}})
	two := redislock.Replicas(2)
	if _, err := locks.TryLock(background, "market", time.Minute, two); err != nil {
		t.Error(err)
	}
	for _, why := range []string{"acknowledged by 1 of 2 replicas", "NOPERM no"} {
		_, err := locks.TryLock(background, "market", time.Minute, two)
		if !errors.Is(err, redislock.ErrNoReplicas) || !strings.Contains(err.Error(), why) {
			t.Error(err)
		}
	}
	want := []string{"LOCK.ACQUIRE", "EVAL WAIT", "EVAL WAIT", "EVAL WAIT"} // and two releases
	if err := locks.Wait(background); err != nil || server.count("EVAL") != 5 || server.count("WAIT 2 1000") != 3 || !slices.Equal(server.pipelines, want) {
		t.Error(err, server.sent, server.pipelines)
	}
}

// inACluster sends one command in a pipeline and no more.
type inACluster struct{ *pipelining }

func (c inACluster) Pipeline(ctx context.Context, commands ...[]any) ([]redislock.Reply, error) {
	if len(commands) > 1 {
		return nil, redislock.ErrNoConnection
	}
	return c.pipelining.Pipeline(ctx, commands...)
}

func TestWithoutTheModuleReplicasAreRefusedWhereWaitCantBeSent(t *testing.T) {
	_, server := inPipelines(map[string][]any{"EVAL": {int64(1)}})
	_, err := redislock.New(inACluster{server}).TryLock(background, "market", time.Minute, redislock.Replicas(1))
	if !errors.Is(err, redislock.ErrModuleMissing) || !strings.Contains(err.Error(), "WAIT") || server.count("EVAL") > 0 {
		t.Error(err, server.sent)
	}
}

func TestAnOlderModuleIsNamedWithWhatItLacks(t *testing.T) {
	for what, options := range map[string][]redislock.Option{
		"Fair": {redislock.Limit(3), redislock.Fair("ann")}, "Replicas": {redislock.Replicas(1)},
	} {
		locks, server := inPipelines(map[string][]any{
			"LOCK.ACQUIRE": {redislock.ServerError("ERR syntax error")}, "INFO": {"# lock_build\r\nlock_version:1.0.0\r\n"},
		})
		for range [2]int{} {
			_, err := locks.TryLock(background, "market", time.Minute, options...)
			if !errors.Is(err, redislock.ErrModuleOlder) || !strings.Contains(err.Error(), what+" needs version 2.0, and it is 1.0.0") {
				t.Error(err)
			}
		}
		if server.count("INFO lock") != 1 {
			t.Error(server.sent)
		}
	}
}
