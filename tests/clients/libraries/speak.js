// Answers one line for each line that it is asked: `acquire KEY TTL`, `wait KEY TTL MS`, `adopt KEY TOKEN`, `extend TTL`, `release`.
import { createInterface } from "node:readline";

export async function answerEach(verbs) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [verb, ...args] = line.split(" ");
    try {
      const got = await verbs[verb](...args);
      console.log(typeof got === "string" ? got : got ? "yes" : "no");
    } catch (error) {
      console.log("error", error.message);
    }
  }
  process.exit();
}
