// A virtual waiting room: so many visitors at once, and everybody else in a queue. docs/waiting-room.md tells about it.
//   PORT=6379 HTTP=8080 SEATS=100 node server.js
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import express from "express";
import { Redis } from "ioredis";

const SEATS = +(process.env.SEATS ?? 100);
const LEASE = 5_000; // for how long a visitor who asks no more keeps a seat or a place, in milliseconds
const ROOM = "{shop}:room", SOLD = "{shop}:sold"; // one tag, so that a cluster keeps them in one slot

const db = new Redis({ port: +(process.env.PORT ?? 6379) }); // one connection for all visitors
const app = express();
app.get("/", (request, response) => response.sendFile(fileURLToPath(new URL("page.html", import.meta.url))));

// The cookie names the visitor, who is the owner of a seat or a place. No other visitor is shown it.
app.use((request, response, next) => {
  request.owner = request.headers.cookie?.match(/\bvisitor=([0-9a-f-]{36})\b/)?.[1];
  if (!request.owner) {
    request.owner = randomUUID();
    response.cookie("visitor", request.owner, { httpOnly: true, sameSite: "strict" });
  }
  next();
});

// The page asks once a second, and that is all: it joins, keeps the place, comes in, and keeps the seat.
app.post("/ask", async (request, response) => {
  const reply = await db.call("LOCK.ACQUIRE", ROOM, request.owner, LEASE, "QUEUE", LEASE, "LIMIT", SEATS);
  if (reply === null) response.status(503).end(); // the server is being drained: the page polls
  else response.json(reply > 0 ? { inside: true } : { place: -reply });
});

// What only those inside may do. A visitor whose seat was lost a moment ago is refused by the server of the data.
app.post("/buy", async (request, response) => {
  try {
    response.json({ sword: await db.call("LOCK.GUARD", ROOM, request.owner, "INCR", SOLD) });
  } catch (error) {
    if (!error.message.startsWith("NOTOWNER")) throw error;
    response.status(403).end();
  }
});

// The next one comes in at once. A visitor who just closes the browser is waited for until the lease is over.
app.post("/leave", async (request, response) => {
  await db.call("LOCK.RELEASE", ROOM, request.owner);
  response.clearCookie("visitor").end(); // a visitor who comes again is a new one, at the end of the queue
});

const listening = app.listen(+(process.env.HTTP ?? 8080), "127.0.0.1", () =>
  console.log(`http://127.0.0.1:${listening.address().port}/`));
