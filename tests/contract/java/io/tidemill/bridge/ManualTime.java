package io.tidemill.bridge;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.util.clock.Clock;
import org.apache.flink.util.clock.ManualClock;

/** Processing time that a script advances; due timers fire while it does. */
final class ManualTime implements ProcessingTimeService {
    private record Timer(long atMs, ProcessingTimeCallback callback) {}

    private final ManualClock clock = new ManualClock();
    private final List<Timer> timers = new ArrayList<>();

    void advance(long byMs) throws Exception {
        clock.advanceTime(byMs, TimeUnit.MILLISECONDS);
        List<Timer> due = timers.stream()
                .filter(timer -> timer.atMs() <= clock.absoluteTimeMillis()).toList();
        timers.removeAll(due);
        for (Timer timer : due) {
            timer.callback().onProcessingTime(timer.atMs());
        }
    }

    @Override
    public Clock getClock() {
        return clock;
    }

    @Override
    public ScheduledFuture<?> registerTimer(long atMs, ProcessingTimeCallback callback) {
        timers.add(new Timer(atMs, callback));
        return null;
    }

    @Override
    public ScheduledFuture<?> scheduleAtFixedRate(
            ProcessingTimeCallback callback, long initialDelay, long period) {
        throw new UnsupportedOperationException();
    }

    @Override
    public ScheduledFuture<?> scheduleWithFixedDelay(
            ProcessingTimeCallback callback, long initialDelay, long period) {
        throw new UnsupportedOperationException();
    }

    @Override
    public CompletableFuture<Void> quiesce() {
        return CompletableFuture.completedFuture(null);
    }
}
