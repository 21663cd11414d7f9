// One of several candidates, of whom one leads at a time, with node-redis 5. check_leader.py in ../python runs many of
// them, and kills them.
//
//     node leader.js NAME URL
//
// acts on URL, a resource that refuses smaller numbers than it has seen, for as long as it leads, and says who leads.
// PORT says where a server with the module is (`make run` starts one).
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

const LEADER = "mailer:leader";
const TTL = +(process.env.TTL ?? 10_000); // after so long another candidate leads in place of one that has died
const LEASE = TTL; // for how long a place in the queue is kept after we last asked, in milliseconds

class Candidate {
  constructor(port, name) {
    this.name = name;
    this.leader = undefined; // the owner that leads; null: there is none; undefined: not known
    this.wake = () => {};
    // One connection for everything. The server tells it when a key changes that it has read. When it breaks
    // node-redis connects again, but fails what was under way; and what has changed meanwhile has to be read.
    this.db = createClient({ RESP: 3, emitInvalidate: true, socket: { port } })
      .on("error", (error) => console.log("#", error.message))
      .on("ready", () => this.look())
      .on("invalidate", () => this.look());
    setInterval(() => this.look(), TTL); // now and then all the same: a connection may be dead, and no event says so
  }

  async look() {
    const leader = await this.db.get(LEADER).catch(() => undefined); // it is looked for anew when a connection is ready
    if (leader === undefined || leader === this.leader) return;
    this.leader = leader;
    this.wake();
    console.log("follows", leader && leader.split("/")[0]);
  }

  // Leads whenever it is its turn, until `resigned` aborts. `lead` is given the number that goes with all that it does,
  // and a signal that aborts when the term is over.
  async campaign(lead, resigned) {
    while (!resigned.aborted) {
      const owner = `${this.name}/${randomUUID()}`; // a fresh one for each term; followers read in it who leads
      const over = new AbortController();
      let end, renewal;
      // The hold ends TTL after the server has heard of it, so not before TTL after we asked. By our own clock, because
      // a server that we can't reach can't tell us that another candidate leads.
      const lastsFrom = (asked) => {
        clearTimeout(end);
        end = setTimeout(() => over.abort(), asked + TTL - performance.now());
      };
      try {
        const number = await this.turn(owner, lastsFrom, resigned);
        renewal = setInterval(async () => {
          const asked = performance.now(), renewed = await this.ask("LOCK.RENEW", LEADER, owner, TTL);
          if (renewed) lastsFrom(asked);
          if (renewed === 0) over.abort();
        }, TTL / 3);
        await lead(number, AbortSignal.any([over.signal, resigned]));
      } catch (error) {
        if (!resigned.aborted) throw error;
      } finally {
        clearInterval(renewal);
        clearTimeout(end);
        over.abort();
        // The one way out, whatever has become of the request: the next one leads at once, or when the ttl is over if
        // this is lost.
        await this.ask("LOCK.RELEASE", LEADER, owner);
      }
    }
  }

  // Waits for the turn without blocking the connection: keeps a place in the queue, and polls when the key has
  // come to be ours, which claims it.
  async turn(owner, lastsFrom, resigned) {
    for (;;) {
      const asked = performance.now(), askAgain = asked + LEASE / 3;
      const reply = await this.ask("LOCK.ACQUIRE", LEADER, owner, TTL, "QUEUE", LEASE);
      resigned.throwIfAborted();
      if (reply > 0) {
        lastsFrom(asked);
        return reply;
      }
      while (performance.now() < askAgain) {
        if (reply < 0 && this.leader === owner) break;
        const changed = new Promise((resolve) => { this.wake = resolve; });
        await Promise.race([changed, sleep(askAgain - performance.now(), null, { signal: resigned })]);
      }
    }
  }

  // A reply is needed in time or not at all: then it is undefined.
  ask(...words) {
    const reply = this.db.sendCommand(words.map(String)).catch((error) => console.log("#", error.message));
    return Promise.race([reply, sleep(TTL / 3)]);
  }
}

// Does something that only the leader may do. The resource refuses a number below one that it has seen.
async function act(url, number) {
  const { status } = await fetch(`${url}&number=${number}`, { method: "POST" });
  return status !== 409;
}

const [name, url] = process.argv.slice(2);
const resigned = new AbortController();
process.on("SIGTERM", () => resigned.abort());

const candidate = new Candidate(+(process.env.PORT ?? 6379), name);
await candidate.db.connect();
await candidate.campaign(async (number, over) => {
  console.log("leads", number);
  while (!over.aborted) {
    if (!await act(`${url}?name=${name}`, number)) return console.log("refused", number);
    await sleep(10);
  }
  console.log("lost", number);
}, resigned.signal);
process.exit();
