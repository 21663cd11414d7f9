# The market under a lock, with redis-rb 4. Needs a server with the module (`make run`); PORT says where.
require "redis"
require "securerandom"

# One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
MARKET, LOCK = "market", "{market}:lock"
BLOCK = 10_000 # for how long to wait for the lock, in milliseconds

class LockLost < StandardError; end # the hold ended before the work did: somebody else may have worked beside us

# redis-rb stops reading after 5 seconds, connects anew, which loses its place in line, asks again once, and raises.
# So let it read for longer than the longest BLOCK. A Redis object is one connection: while a thread waits for a lock
# all others wait for that thread. Each thread needs its own, or one out of a pool with one for each waiter.
def connect
  Redis.new(port: ENV.fetch("PORT", 6379).to_i, read_timeout: BLOCK / 1000 + 5)
end

# When the connection breaks redis-rb connects again and sends this again (reconnect_attempts: once): same owner, so
# same fencing number.
def acquire(db, owner, ttl, *how)
  db.call("LOCK.ACQUIRE", LOCK, owner, ttl, *how)
end

def lock(db, ttl:)
  owner = SecureRandom.uuid # a fresh one for each piece of work, not for each worker
  acquire(db, owner, ttl, "BLOCK", BLOCK) or raise "the market was not free within #{BLOCK} ms"
  begin
    yield owner
  ensure
    # Sent twice, RELEASE answers 0 the second time: so this may be a false alarm, but never a missed one.
    raise LockLost if db.call("LOCK.RELEASE", LOCK, owner).zero?
  end
end

# One command, so all or nothing, and nothing (NOTOWNER) once the lock is lost. It sets new values instead of adding
# (HINCRBY), because redis-rb may send it twice.
def write(db, owner, values)
  db.call("LOCK.GUARD", LOCK, owner, "HSET", MARKET, *values.flatten)
end

def sell(db, seller, item, price)
  lock(db, ttl: 5_000) do |owner|
    raise "#{seller} has no #{item}" unless db.hget(MARKET, "#{item}:owner") == seller
    write(db, owner, "#{item}:price" => price)
  end
end

def buy(db, buyer, item)
  lock(db, ttl: 5_000) do |owner|
    market = db.hgetall(MARKET)
    seller, price = market["#{item}:owner"], market["#{item}:price"].to_i
    purse, till = market["#{buyer}:funds"].to_i, market["#{seller}:funds"].to_i
    next false if price.zero? || price > purse

    write(db, owner, "#{buyer}:funds" => purse - price, "#{seller}:funds" => till + price,
                     "#{item}:owner" => buyer, "#{item}:price" => 0)
    true
  end
end

# A job longer than its ttl renews between its steps, and stops as soon as that comes too late.
def take_stock(db, shelves)
  lock(db, ttl: 1_000) do |owner|
    shelves.times do
      sleep 0.3
      raise LockLost if db.call("LOCK.RENEW", LOCK, owner, 1_000).zero?
    end
  end
end

# From here on: the examples at work, and what must come of it.
def must(true_thing) = true_thing || raise("this must be true")

def who_waits(operator, other_than: nil)
  loop do
    blocked = operator.call("CLIENT", "LIST")[/^id=(\d+).* flags=b/, 1]
    return blocked if blocked && blocked != other_than
    sleep 0.001
  end
end

db, operator = connect, connect
db.del(MARKET, LOCK)
db.hset(MARKET, "ann:funds", 0, "bob:funds", 100, "sword:owner", "ann")

sell(db, "ann", "sword", 80)
must buy(db, "bob", "sword") && !buy(db, "bob", "sword")
must db.hmget(MARKET, "ann:funds", "bob:funds", "sword:owner") == %w[80 20 bob]
puts "bob has bought the sword"

acquire(db, "a worker that dies", 5_500)
must acquire(db, "one that only tries", 1_000).nil?
began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
lock(db, ttl: 5_000) { must Process.clock_gettime(Process::CLOCK_MONOTONIC) - began > 5 }
puts "waited for longer than the default read timeout"

take_stock(db, 5)
puts "renewed a long job"

begin
  lock(db, ttl: 50) do |owner|
    sleep 0.1
    write(db, owner, "bob:funds" => 1_000_000)
  end
  must false
rescue LockLost => lost
  must lost.cause.message.start_with?("NOTOWNER") && db.hget(MARKET, "bob:funds") == "20"
end
puts "a lost lock: the write was refused, and RELEASE said so"

fence = acquire(db, "ann", 5_000)
operator.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
must acquire(db, "ann", 5_000) == fence
puts "connection broken while holding: the same number #{fence}"

thread = Thread.new { sell(connect, "bob", "sword", 90) }
waiter = who_waits(operator)
operator.call("CLIENT", "KILL", "ID", waiter)
must who_waits(operator, other_than: waiter)
db.call("LOCK.RELEASE", LOCK, "ann")
thread.join
must db.hget(MARKET, "sword:price") == "90"
puts "connection broken while waiting: asked again, and served"
