/**
 * A client of ioredis (4 to 6) or node-redis (4 to 6): of one server, made by a Sentinel, or of a cluster. It is shared
 * with all that use it, and is never blocked.
 */
export type RedisClient =
  | { call(command: string, ...args: any[]): Promise<unknown>; sendCommand(...args: any[]): unknown }
  | { sendCommand(...args: any[]): Promise<any> };

declare global {
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
}

export interface LockLostCallback<L = Mutex | Semaphore> {
  (this: L, error: LostLockError): void;
}

export interface TimeoutOptions {
  /** For how long the lock is held unless it is renewed, in milliseconds: 10,000. */
  lockTimeout?: number;
  /** For how long to wait for it, in milliseconds: 10,000. 0 tries once, Infinity waits without end. */
  acquireTimeout?: number;
  /** 1 tries once; n waits for no longer than n attempts would take, a `retryInterval` apart. */
  acquireAttemptsLimit?: number;
  /**
   * The first pause of a request that polls because no message says whose turn it is, in milliseconds: 10. The pauses
   * grow, to a second or to this. Without the module they don't grow beyond this, and by default not beyond 100.
   */
  retryInterval?: number;
  /** How often to renew, in milliseconds, less than `lockTimeout`: a third of it. 0 does not renew. */
  refreshInterval?: number;
}

export interface LockOptions<L = Mutex | Semaphore> extends TimeoutOptions {
  /**
   * What stands before the name, in place of `mutex:` or `semaphore:`. With "" the key is the bare name, as in the
   * packages for other languages.
   */
  keyPrefix?: string;
  /**
   * The owner. All that use it are taken for one piece of work. By default a fresh one for each attempt:
   * `host:pid:` and a UUID.
   */
  identifier?: string;
  /** What stands before the UUID, in place of `host:pid`; "" for the UUID alone. */
  ownerPrefix?: string;
  /** Another process has acquired it by this `identifier`: `acquire` takes it over, and renews it. */
  acquiredExternally?: boolean;
  /** Called when a hold that is renewed is found to be lost. By default a warning of the process says so. */
  onLockLost?: LockLostCallback<L>;
  /** Throw ModuleMissingError where the server has not loaded the module, instead of using SET NX there. */
  requireModule?: boolean;
  /** Don't wait behind so many others or more: the server's error QUEUEFULL is thrown at once. Needs the module. */
  maxQueue?: number;
  /**
   * Acquire and renew it only if so many replicas have acknowledged it, or throw the server's error NOREPLICAS. It takes
   * a connection more (`duplicate()`). Without the module by WAIT, for a second at most. Unset: the server's `lock.replicas`.
   */
  replicas?: number;
  /** @deprecated Use `identifier` and `acquiredExternally`. */
  externallyAcquiredIdentifier?: string;
  /** @deprecated Use `identifier`. */
  identifierSuffix?: string;
}

export interface MutexOptions extends LockOptions<Mutex> {
  /** Share it with others who also share it: a reader. */
  shared?: boolean;
}

export interface SemaphoreOptions extends LockOptions<Semaphore> {
  /** The group of the request (a tenant, say): the group that holds the fewest is served next. It precedes the owner. */
  fair?: string;
  /** With `fair`: a group holds at most so many. */
  per?: number;
}

/** What one acquire has brought. It says of itself whether it is held, and ends no other. */
export interface Hold {
  /** Its owner. */
  readonly identifier: string;
  /** Its fencing token, for what it protects; null on a server without the module. */
  readonly fence: number | null;
  /** Aborted when it is found to be lost, or its time is over, with a LostLockError. Not by its release. */
  readonly lost: AbortSignal;
  /** Not released, and not lost, as far as this process knows: false also at the first look after a pause beyond its end. */
  readonly isHeld: boolean;
  readonly isReleased: boolean;
  /** Throws LostLockError unless `isHeld`. */
  throwIfLost(): void;
  /** Renews it at once, for this long, in milliseconds: `lockTimeout`. Throws LostLockError. */
  renew(lockTimeout?: number): Promise<void>;
  /** From now on it is not renewed. */
  stopRefresh(): void;
  /**
   * Runs a command only while the server sees that it is held, atomically, or else throws LostLockError. It is
   * sent once: after an error of the connection it is not known whether it has run. Of several keys, by the first.
   * Nothing is sent once it is known that this hold is over, or that its owner has a later one with another `fence`.
   */
  guard(command: string, ...args: Array<string | number | Buffer>): Promise<any>;
  /** Lets go. Throws LostLockError if it was lost before: another owner may have worked beside us. */
  release(): Promise<void>;
  /** The same, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

declare abstract class Lock {
  /** The owner of the latest hold; while there is none, of the next attempt. */
  get identifier(): string;
  /** Held, as far as this process knows. */
  get isAcquired(): boolean;
  /** The fencing token of the latest hold; undefined while nothing is held, and without the module. */
  get fence(): number | undefined;
  /**
   * Aborted when the latest hold is found to be lost, or its time is over, with a LostLockError. Not by its release.
   * Before there is one, that of the next.
   */
  get lost(): AbortSignal;
  /** Waits for its turn. Throws TimeoutError, DeadlockError, ModuleMissingError, the signal's reason, or what the client says. */
  acquire(signal?: AbortSignal): Promise<Hold>;
  /** So that it fits where one of redis-semaphore's is expected. */
  acquire(signal?: AbortSignal): Promise<void>;
  /** The same, and null instead of TimeoutError. */
  tryHold(signal?: AbortSignal): Promise<Hold | null>;
  /** The same, and whether it was acquired. */
  tryAcquire(signal?: AbortSignal): Promise<boolean>;
  /**
   * Releases the hold that the same flow of calls has acquired last by this object, or the oldest one. If that was
   * lost, nothing happens, but `lost` is aborted. Where several tasks share the object, let each release its own hold.
   */
  release(): Promise<void>;
  /** From now on nothing that is held is renewed. */
  stopRefresh(): void;
  /** The hold's guard: of the one that release() would end. */
  guard(command: string, ...args: Array<string | number | Buffer>): Promise<any>;
}

export declare class Mutex extends Lock {
  /** Several keys are held together, or none. The lock of `key` is `mutex:key` (`keyPrefix`), behind the client's prefix. */
  constructor(client: RedisClient, key: string | readonly string[], options?: MutexOptions);
}

export declare class Semaphore extends Lock {
  /** Held by `limit` at a time. The lock of `key` is `semaphore:key` (`keyPrefix`), behind the client's prefix. */
  constructor(
    client: RedisClient, key: string | readonly string[], limit: number, options?: SemaphoreOptions,
  );
}

/** A lock was not to be had in time. */
export declare class TimeoutError extends Error {}
/** A hold has ended before it was released: another owner may have worked beside us. The message, and `cause`, say how that is known. */
export declare class LostLockError extends Error {
  /** The key, or several, as they are on the server. */
  readonly key?: string;
  /** The owner of the hold. */
  readonly identifier?: string;
  readonly fence?: number | null;
  /** When it was found out. */
  readonly at: Date;
}
/** The request would have waited for its own owner (or may have: TOOCOMPLEX), and was refused at once. */
export declare class DeadlockError extends Error {}

/** What was asked for needs the redis-lock module, and the server has not loaded it, or an older one. */
export declare class ModuleMissingError extends Error {}

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
