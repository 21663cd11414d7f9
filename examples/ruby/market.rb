# The market under a lock, with redis-rb 4. check.rb beside it runs it.
require "redis"
require "securerandom"

# One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
MARKET, LOCK = "{market}:goods", "{market}:lock"
BLOCK = 10_000 # for how long to wait for the lock, in milliseconds

class LockLost < StandardError; end # the hold ended before the work did: another owner may have worked beside us
class Busy < StandardError; end # others have the market

# redis-rb stops reading after 5 seconds, connects anew, which loses its place in the queue, retries once, and raises.
# So let it read for longer than the longest BLOCK. A Redis object is one connection: while a thread waits for a lock
# all others wait for that thread. Each thread needs its own, or one out of a pool with one for each waiter.
def connect(port = 6379)
  Redis.new(port: port, read_timeout: BLOCK / 1000 + 5)
end

def lock(db, ttl, *how)
  owner, fence = SecureRandom.uuid, nil # a fresh one for each piece of work, not for each worker
  begin
    # When the connection breaks redis-rb reconnects and retries, once (reconnect_attempts): same owner, so same
    # fencing token.
    fence = db.call("LOCK.ACQUIRE", LOCK, owner, ttl, *how) or raise Busy
    yield owner
  ensure
    # The one way out, whatever has become of the request: a worker that gives up in the moment of its grant
    # (Timeout.timeout, Thread#raise, a read timeout) has the lock, and does not know it.
    # Asked twice, RELEASE answers 0 the second time: this may be a false alarm, but never a missed one.
    raise LockLost if db.call("LOCK.RELEASE", LOCK, owner).zero? && fence
  end
end

# All of it or nothing, and nothing (NOTOWNER) once the lock is lost. New values and no differences (HINCRBY), because
# redis-rb may ask twice.
def write(db, owner, values)
  db.call("LOCK.GUARD", LOCK, owner, "HSET", MARKET, *values.flatten)
end

def sell(db, seller, item, price)
  lock(db, 5_000) do |owner| # tries once
    write(db, owner, "#{item}:owner" => seller, "#{item}:price" => price)
  end
end

def buy(db, buyer, item)
  lock(db, 5_000, "BLOCK", BLOCK) do |owner| # waits in line
    market = db.hgetall(MARKET)
    seller, price = market["#{item}:owner"], market["#{item}:price"].to_i
    purse, till = market["#{buyer}:funds"].to_i, market["#{seller}:funds"].to_i
    next false if price.zero? || price > purse

    write(db, owner, "#{buyer}:funds" => purse - price, "#{seller}:funds" => till + price,
                     "#{item}:owner" => buyer, "#{item}:price" => 0)
    true
  end
end

def take_stock(db, shelves)
  lock(db, 1_000, "BLOCK", BLOCK) do |owner|
    shelves.times do
      sleep 0.3 # longer than the ttl in all: so it renews, and stops when that comes too late
      raise LockLost if db.call("LOCK.RENEW", LOCK, owner, 1_000).zero?
    end
  end
end
