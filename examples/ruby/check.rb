# What must come of market.rb. PORT says where a server with the module is (`make run` starts one).
#
#   gem install redis
require "timeout"
require_relative "market"

def open_one = connect(ENV.fetch("PORT", 6379).to_i)

def must(true_thing) = true_thing || raise("this must be true")

def raises(error)
  yield
rescue error => raised
  raised
else
  raise "no #{error}"
end

def acquire(db, owner, ttl) = db.call("LOCK.ACQUIRE", LOCK, owner, ttl)

def who_waits(operator, other_than: nil)
  loop do
    blocked = operator.call("CLIENT", "LIST")[/^id=(\d+).* flags=b/, 1]
    return blocked if blocked && blocked != other_than
    sleep 0.001
  end
end

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

db, operator = open_one, open_one
db.del(MARKET, LOCK)
db.hset(MARKET, "ann:funds", 0, "bob:funds", 100)

sell(db, "ann", "sword", 80)
must buy(db, "bob", "sword") && !buy(db, "bob", "sword")
must db.hmget(MARKET, "ann:funds", "bob:funds", "sword:owner") == %w[80 20 bob]
puts "bob has bought the sword"

acquire(db, "a worker that dies", 5_500)
raises(Busy) { sell(db, "bob", "sword", 90) }
puts "tried, and did not wait"
began = now
must !buy(db, "ann", "sword") && now - began > 5
puts "waited for longer than the default read timeout"

take_stock(db, 5)
puts "renewed a long job"

lost = raises(LockLost) do
  lock(db, 50) do |owner|
    sleep 0.1
    write(db, owner, "bob:funds" => 1_000_000)
  end
end
must lost.cause.message.start_with?("NOTOWNER") && db.hget(MARKET, "bob:funds") == "20"
puts "a lost lock: the write was refused, and RELEASE said so"

fence = acquire(db, "ann", 5_000)
operator.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
must acquire(db, "ann", 5_000) == fence
puts "connection broken while holding: the same number #{fence}"

thread = Thread.new { take_stock(open_one, 1) }
waiter = who_waits(operator)
operator.call("CLIENT", "KILL", "ID", waiter)
must who_waits(operator, other_than: waiter)
db.call("LOCK.RELEASE", LOCK, "ann")
must thread.join(BLOCK / 1000) && !db.exists?(LOCK)
puts "connection broken while waiting: asked again, and served"

# Another owner's hold ends at the very moment in which a worker gives up.
GivenUp = Class.new(StandardError)
given_up = 0
1_000.times do
  moment = rand(1..6)
  acquire(operator, "another owner", moment)
  begin
    Timeout.timeout((moment + rand(-0.5..1.5)) / 1000.0, GivenUp) { lock(db, 60_000, "BLOCK", BLOCK) { nil } }
  rescue GivenUp
    given_up += 1
  end
  ends = now + 5
  must now < ends while operator.call("LOCK.INFO", LOCK)
end
must given_up > 100
puts "#{given_up} of 1000 gave up about the moment of their grant, and left nothing behind"
