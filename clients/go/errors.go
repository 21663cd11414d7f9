package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotObtained is returned if others hold the lock, or the context of [Client.Lock] ended before its turn came.
	// Then the error is that of the context as well.
	ErrNotObtained = errors.New("redislock: lock not obtained")

	// ErrLost is returned if a hold ended before it was released. Another owner may have worked beside this one.
	ErrLost = errors.New("redislock: the lock was lost")

	// ErrReleased is returned for a hold that was released before.
	ErrReleased = errors.New("redislock: the lock was released")

	// ErrModuleMissing is returned for what a server without the module can't do.
	ErrModuleMissing = errors.New("redislock: the server has not loaded the redis-lock module")

	// ErrModuleOlder is returned for what the server's module does not know, because it is older than this package.
	ErrModuleOlder = errors.New("redislock: the server's redis-lock module is older than this package")

	// ErrInvalid is returned for an argument or option that makes no sense. Nothing was sent.
	ErrInvalid = errors.New("redislock: invalid")

	// ErrClosed is for a [Doer] whose client was closed.
	ErrClosed = errors.New("redislock: the client is closed")

	// ErrNoConnection is for a [Connector] that has no connection of its own for a key.
	ErrNoConnection = errors.New("redislock: no connection of its own")

	errNoReply = errors.New("the server did not reply in time")
	errGaveUp  = errors.New("the context has ended")
)

// A ServerError is an error that the server replied.
type ServerError string

// What the server replies to a request that would be wrong to retry. [errors.Is] compares the first word.
const (
	// ErrDeadlock says that the request would have waited for its own owner, and who waits for whom.
	ErrDeadlock ServerError = "DEADLOCK"
	// ErrTooComplex says that it would have taken too long to find out whether the request would be a deadlock.
	ErrTooComplex ServerError = "TOOCOMPLEX"
	// ErrQueueFull says that as many wait as [MaxQueue] or the server allows.
	ErrQueueFull ServerError = "QUEUEFULL"
	// ErrReplaced says that a later request of the same owner has taken over this one's wait.
	ErrReplaced ServerError = "REPLACED"
	// ErrOneWait says that the owner waits for another lock already.
	ErrOneWait ServerError = "ONEWAIT"
	// ErrNoUpgrade says that a shared lock of this owner does not become an exclusive one.
	ErrNoUpgrade ServerError = "NOUPGRADE"
	// ErrNoReplicas says that too few replicas have acknowledged a grant, which is then released, or a renewal.
	ErrNoReplicas ServerError = "NOREPLICAS"

	errNotOwner ServerError = "NOTOWNER"
)

func (e ServerError) Error() string { return string(e) }

// Code is the first word of the error, such as DEADLOCK or ERR.
func (e ServerError) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// Is reports whether target is one of the errors above with the same code.
func (e ServerError) Is(target error) bool {
	other, ok := target.(ServerError)
	return ok && !strings.Contains(string(other), " ") && e.Code() == string(other)
}

// whyEnded is the cause that the context's user gave, and that it was cancelled or its deadline has passed.
func whyEnded(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if errors.Is(cause, err) || errors.Is(cause, errNoReply) { // the latter is a limit of this package's
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// mayPass reports whether the same request may succeed a little later: the way to the server is broken, or the server
// is starting, changing its role, or moving the key.
func mayPass(err error) bool {
	if isUnanswered(err) {
		return true
	}
	var refused ServerError
	errors.As(err, &refused)
	switch refused.Code() {
	case "UNBLOCKED", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY":
		return true
	}
	return false
}

// leavesEndOpen reports whether the replicas may have either the end that a renewal set or the one before.
func leavesEndOpen(err error) bool {
	var refused ServerError
	return errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOREPLICAS lock ")
}

// isUnanswered reports whether the request may have had an effect, or may have one later.
func isUnanswered(err error) bool {
	var refused ServerError
	return !errors.As(err, &refused) && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrModuleMissing) &&
		!errors.Is(err, ErrModuleOlder) &&
		!errors.Is(err, ErrInvalid)
}
