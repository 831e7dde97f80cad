package io.tidemill.bridge;

import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/**
 * Splits an out frame into out frames of one row.
 *
 * <p>A Kafka sink writes one record for each element: a frame handed to it whole would be one record
 * with all rows in it.
 */
public final class FrameUnpacker implements FlatMapFunction<byte[], byte[]> {
    private static final long serialVersionUID = 1L;

    @Override
    public void flatMap(byte[] frame, Collector<byte[]> out) {
        OutFrame rows = new OutFrame(frame);
        for (int row = 0; row < rows.rows; row++) {
            out.collect(rows.takeRow());
        }
    }
}
