package io.tidemill.bridge;

import java.io.Serializable;
import java.time.Duration;
import java.util.function.LongSupplier;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkGeneratorSupplier;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;

/**
 * Watermarks of bounded out-of-orderness that a wrong clock can't move.
 *
 * <p>Without the guard one record from the year 2100 makes every later record late, for all
 * partitions, until the job is restarted from before it. Records without a time (0 or less) do not
 * count either. Neither kind keeps a partition from being idle: one that has only such records would
 * otherwise hold all others back.
 */
public final class GuardedWatermarks implements WatermarkStrategy<byte[]> {
    private static final long serialVersionUID = 1L;

    /** Wall clock in epoch ms; a test passes its own. */
    interface Clock extends LongSupplier, Serializable {}

    private final WatermarkStrategy<byte[]> inner;
    private final long futureLimitMs;
    private final Clock clock;

    GuardedWatermarks(WatermarkStrategy<byte[]> inner, long futureLimitMs, Clock clock) {
        this.inner = inner;
        this.futureLimitMs = futureLimitMs;
        this.clock = clock;
    }

    /**
     * The strategy of a source of record frames; event time is the Kafka record's timestamp.
     *
     * @param outOfOrdernessMs how far behind the newest record a record is still in time
     * @param futureLimitMs records further ahead of the wall clock never move the watermark
     * @param idleMs a partition without a usable record for so long is left out; 0: never
     */
    public static WatermarkStrategy<byte[]> strategy(
            long outOfOrdernessMs, long futureLimitMs, long idleMs) {
        return strategy(outOfOrdernessMs, futureLimitMs, idleMs, System::currentTimeMillis);
    }

    static WatermarkStrategy<byte[]> strategy(
            long outOfOrdernessMs, long futureLimitMs, long idleMs, Clock clock) {
        WatermarkStrategy<byte[]> bounded =
                WatermarkStrategy.forBoundedOutOfOrderness(Duration.ofMillis(outOfOrdernessMs));
        if (idleMs > 0) {
            bounded = bounded.withIdleness(Duration.ofMillis(idleMs));
        }
        return new GuardedWatermarks(bounded, futureLimitMs, clock);
    }

    @Override
    public WatermarkGenerator<byte[]> createWatermarkGenerator(
            WatermarkGeneratorSupplier.Context context) {
        return new Guard(inner.createWatermarkGenerator(context));
    }

    private final class Guard implements WatermarkGenerator<byte[]> {
        private final WatermarkGenerator<byte[]> guarded;

        Guard(WatermarkGenerator<byte[]> guarded) {
            this.guarded = guarded;
        }

        @Override
        public void onEvent(byte[] event, long timestampMs, WatermarkOutput output) {
            if (timestampMs > 0 && timestampMs - clock.getAsLong() <= futureLimitMs) {
                guarded.onEvent(event, timestampMs, output);
            }
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {
            guarded.onPeriodicEmit(output);
        }
    }
}
