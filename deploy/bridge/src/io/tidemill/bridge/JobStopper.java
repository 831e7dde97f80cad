package io.tidemill.bridge;

import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.util.Collector;

/**
 * Ends the job for good with the message that it is given.
 *
 * <p>An exception out of a Python operator only restarts the job, so a job that must stop (too many
 * dead letters) would come back for ever and go on writing them.
 */
public final class JobStopper implements FlatMapFunction<byte[], byte[]> {
    private static final long serialVersionUID = 1L;

    @Override
    public void flatMap(byte[] message, Collector<byte[]> out) {
        String text = new String(message, StandardCharsets.UTF_8);
        throw new SuppressRestartsException(new IllegalStateException(text));
    }
}
