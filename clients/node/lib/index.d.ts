/**
 * A client of ioredis (4 to 6) or node-redis (4 to 6): of one server, made by a Sentinel, or of a cluster. It is shared
 * with whoever else uses it, and is never blocked.
 */
export type RedisClient =
  | { call(command: string, ...args: any[]): Promise<unknown>; sendCommand(...args: any[]): unknown }
  | { sendCommand(...args: any[]): Promise<any> };

export interface LockLostCallback<L = Mutex | Semaphore> {
  (this: L, error: LostLockError): void;
}

export interface TimeoutOptions {
  /** For how long the lock is held unless it is renewed, in milliseconds: 10,000. */
  lockTimeout?: number;
  /** For how long to wait for it, in milliseconds: 10,000. 0 tries once, Infinity waits for ever. */
  acquireTimeout?: number;
  /** 1 tries once; n waits for no longer than n attempts would take, a `retryInterval` apart. */
  acquireAttemptsLimit?: number;
  /** The pause between two questions where nobody says whose turn it is, in milliseconds: 10. */
  retryInterval?: number;
  /** How often to renew, in milliseconds: a third of `lockTimeout`. 0 does not renew. */
  refreshInterval?: number;
}

export interface LockOptions<L = Mutex | Semaphore> extends TimeoutOptions {
  /** The owner. Whoever else uses it is taken for the same piece of work. A fresh one for each attempt, by default. */
  identifier?: string;
  /** Somebody else has acquired it by this `identifier`: `acquire` takes it over, and renews it. */
  acquiredExternally?: true;
  /** Called when a hold that is renewed is found to be lost. By default the error is an unhandled rejection. */
  onLockLost?: LockLostCallback<L>;
  /** @deprecated Use `identifier` and `acquiredExternally`. */
  externallyAcquiredIdentifier?: string;
  /** @deprecated Use `identifier`. */
  identifierSuffix?: string;
}

export interface MutexOptions extends LockOptions<Mutex> {
  /** Share it with others who also share it: a reader. */
  shared?: boolean;
}

declare abstract class Lock {
  /** The owner of the hold; while there is none, of the next attempt. */
  get identifier(): string;
  /** Held, as far as this process knows. */
  get isAcquired(): boolean;
  /** The fencing number of the hold, for what it protects; undefined while nothing is held. */
  get fence(): number | undefined;
  /** Aborted when the latest hold is found to be lost, or its time is over, with a LostLockError. Not by its release. */
  get lost(): AbortSignal;
  /** Waits for its turn. Throws TimeoutError, DeadlockError, the signal's reason, or what the client says. */
  acquire(signal?: AbortSignal): Promise<void>;
  /** The same, and false instead of TimeoutError. */
  tryAcquire(signal?: AbortSignal): Promise<boolean>;
  /** Lets go. If it was not held until now, `lost` is aborted: somebody else may have worked beside us. */
  release(): Promise<void>;
  /** From now on the hold is not renewed. */
  stopRefresh(): void;
  /**
   * Runs a command in the same instant in which the server sees that this lock is held, or not at all: LostLockError.
   * Of several locks, by the first.
   */
  guard(command: string, ...args: Array<string | number | Buffer>): Promise<any>;
}

export declare class Mutex extends Lock {
  /** Several keys are held together, or none. The lock of `key` is `mutex:key`, behind the client's prefix. */
  constructor(client: RedisClient, key: string | readonly string[], options?: MutexOptions);
}

export declare class Semaphore extends Lock {
  /** Held by `limit` at a time. The lock of `key` is `semaphore:key`, behind the client's prefix. */
  constructor(
    client: RedisClient, key: string | readonly string[], limit: number, options?: LockOptions<Semaphore>,
  );
}

/** A lock was not to be had in time. */
export declare class TimeoutError extends Error {}
/** A hold has ended before it was released: somebody else may have worked beside us. */
export declare class LostLockError extends Error {}
/** The request would have waited for its own owner (or may have: TOOCOMPLEX), and was refused at once. */
export declare class DeadlockError extends Error {}

export declare const defaultTimeoutOptions: {
  lockTimeout: number;
  acquireTimeout: number;
  acquireAttemptsLimit: number;
  retryInterval: number;
};

/**
 * For redlock 5: `new Redlock(clients, settings, redlockScripts)`.
 * For redlock 4: `new Redlock(clients, { ...settings, ...redlockScripts })`.
 */
export declare const redlockScripts: Readonly<{
  acquireScript: (script: string) => string;
  extendScript: (script: string) => string;
  releaseScript: (script: string) => string;
  lockScript: (script: string) => string;
  unlockScript: (script: string) => string;
}>;
