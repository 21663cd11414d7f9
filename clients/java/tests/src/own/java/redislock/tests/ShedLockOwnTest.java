package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;

import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.test.support.AbstractExtensibleLockProviderIntegrationTest;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import redislock.RedisLocks;
import redislock.shedlock.RedisLockProvider;

/** The tests that ShedLock has for its own providers. */
class ShedLockOwnTest {
    private abstract static class Own extends AbstractExtensibleLockProviderIntegrationTest {
        private final Kind kind;
        private final boolean withModule;
        private TestServer server;
        private Kind.Connected connected;
        private RedisLocks locks;

        Own(Kind kind, boolean withModule) {
            this.kind = kind;
            this.withModule = withModule;
        }

        @BeforeEach
        void connect() {
            server = withModule ? TestServer.start("--loadmodule", TestServer.module()) : TestServer.start();
            connected = kind.connect(server.port);
            locks = new RedisLocks(connected.redis());
        }

        @AfterEach
        void close() {
            locks.close();
            connected.close().run();
            server.close();
        }

        @Override
        protected ExtensibleLockProvider getLockProvider() {
            return new RedisLockProvider(locks);
        }

        @Override
        protected void assertLocked(String name) {
            assertEquals(1L, server.ask("EXISTS", "job-lock:default:" + name));
        }

        @Override
        protected void assertUnlocked(String name) {
            assertEquals(0L, server.ask("EXISTS", "job-lock:default:" + name));
        }
    }

    @Nested
    class JedisTest extends Own {
        JedisTest() {
            super(Kind.JEDIS, true);
        }
    }

    @Nested
    class JedisWithoutTheModuleTest extends Own {
        JedisWithoutTheModuleTest() {
            super(Kind.JEDIS, false);
        }
    }

    @Nested
    class LettuceTest extends Own {
        LettuceTest() {
            super(Kind.LETTUCE, true);
        }
    }

    @Nested
    class LettuceWithoutTheModuleTest extends Own {
        LettuceWithoutTheModuleTest() {
            super(Kind.LETTUCE, false);
        }
    }
}
