package io.tidemill.bridge;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkGeneratorSupplier;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.util.clock.ManualClock;
import org.apache.flink.util.clock.RelativeClock;

/** Drives GuardedWatermarks by a script and tells what it emits; a repeated watermark only once. */
final class WatermarkScript implements WatermarkOutput, WatermarkGeneratorSupplier.Context {
    // Not from 0: Flink takes that for "no inactivity yet".
    private final ManualClock idleClock = new ManualClock(1);
    private final List<String> events = new ArrayList<>();
    private long wallMs;
    private long lastMs = Long.MIN_VALUE;

    /** outOfOrdernessMs, futureLimitMs, idleMs, wall clock ms, then event:ts emit advance:ms. */
    static List<String> run(List<String> words) {
        return new WatermarkScript().play(words);
    }

    private List<String> play(List<String> words) {
        wallMs = Long.parseLong(words.get(3));
        WatermarkGenerator<byte[]> generator = GuardedWatermarks.strategy(
                Long.parseLong(words.get(0)), Long.parseLong(words.get(1)),
                Long.parseLong(words.get(2)), () -> wallMs).createWatermarkGenerator(this);
        for (String word : words.subList(4, words.size())) {
            String[] step = word.split(":");
            switch (step[0]) {
                case "event" -> generator.onEvent(new byte[0], Long.parseLong(step[1]), this);
                case "emit" -> generator.onPeriodicEmit(this);
                case "advance" -> advance(Long.parseLong(step[1]));
                default -> throw new IllegalArgumentException(word);
            }
        }
        return events;
    }

    private void advance(long byMs) {
        wallMs += byMs;
        idleClock.advanceTime(byMs, TimeUnit.MILLISECONDS);
    }

    @Override
    public void emitWatermark(Watermark mark) {
        if (mark.getTimestamp() > lastMs) {
            lastMs = mark.getTimestamp();
            events.add("watermark:" + lastMs);
        }
    }

    @Override
    public void markIdle() {
        events.add("idle");
    }

    @Override
    public void markActive() {
        events.add("active");
    }

    @Override
    public MetricGroup getMetricGroup() {
        return new UnregisteredMetricsGroup();
    }

    @Override
    public RelativeClock getInputActivityClock() {
        return idleClock;
    }
}
